// scalegemm info: devices, toolchains, and with --ceilings what the hardware can do.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "facts.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  bool ceilings = false;
};

struct Ceiling {
  int32_t threads;
  scalegemm_ceilings value;
};

void print_devices(const std::vector<scalegemm_device_info>& devices) {
  for (const scalegemm_device_info& d : devices) {
    fmt::print("device     {}: {}, {} cores\n", d.name, d.model, d.cores);
    fmt::print("  target   {}\n  features {}\n", d.target, d.features);
    fmt::print("  caches   L1 {}, L2 {}, L3 {}; memory {}\n", human_bytes(static_cast<double>(d.l1_bytes)),
               human_bytes(static_cast<double>(d.l2_bytes)), human_bytes(static_cast<double>(d.l3_bytes)),
               human_bytes(static_cast<double>(d.memory_bytes)));
  }
}

void print_toolchains(const std::vector<scalegemm_toolchain_info>& list) {
  for (const scalegemm_toolchain_info& t : list) {
    if (t.problem[0] == '\0') {
      fmt::print("toolchain  {}: {}\n", t.name, t.version);
    } else {
      fmt::print("toolchain  {}: not usable: {}\n", t.name, t.problem);
    }
  }
}

void print_ceilings(const std::vector<Ceiling>& ceilings) {
  fmt::print("\nCeilings of this machine, measured now:\n");
  Table table({"threads", "f32 FMA GFLOP/s", "f32 FMA fed", "bf16 dot", "int8 dot GOP/s", "int8 dot fed",
               "read GB/s", "launch us"});
  for (const auto& [threads, c] : ceilings) {
    table.add({std::to_string(threads), short_number(c.f32_fma_gflops), short_number(c.f32_fma_fed_gflops),
               c.bf16_dot_gflops == 0 ? "-" : short_number(c.bf16_dot_gflops), short_number(c.int8_dot_gops),
               short_number(c.int8_dot_fed_gops), short_number(c.read_gbps), short_number(c.launch_us)});
  }
  table.print();
}

int run(const Options& options) {
  const Runtime runtime = options.runtime.make_runtime();
  const auto devices = runtime.devices();
  std::vector<Ceiling> ceilings;
  if (options.ceilings) {
    const int32_t most = options.runtime.threads > 0 ? options.runtime.threads : devices.front().cores;
    Progress progress(options.progress.show(), most > 1 ? 2 : 1);
    progress.step(0, "measuring with 1 thread");
    ceilings.push_back({1, runtime.measure_ceilings(devices.front().name, 1)});
    if (most > 1) {
      progress.step(1, fmt::format("measuring with {} threads", most));
      ceilings.push_back({most, runtime.measure_ceilings(devices.front().name, most)});
    }
  }
  Json json = {{"version", scalegemm_version()}, {"devices", Json::array()}, {"toolchains", Json::array()}};
  for (const auto& device : devices) {
    json["devices"].push_back(json_of(device));
  }
  for (const auto& toolchain : toolchains(runtime)) {
    json["toolchains"].push_back(json_of(toolchain));
  }
  if (options.ceilings) {
    json["ceilings"] = Json::array();
    for (const auto& [threads, value] : ceilings) {
      json["ceilings"].push_back(json_of(value, threads));
    }
  }
  if (!options.json.replaces_text()) {
    fmt::print("scalegemm  {}\n", scalegemm_version());
    print_devices(devices);
    print_toolchains(toolchains(runtime));
    if (options.ceilings) {
      print_ceilings(ceilings);
    }
  }
  options.json.write(json);
  return kExitOk;
}

}  // namespace

void add_info(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("info", "Devices, toolchains, measured ceilings");
  command->add_flag("--ceilings", options->ceilings, "Measure what the hardware can do (about a second)");
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
