// scalegemm info: devices, toolchains, and with --ceilings what the hardware can do.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "facts.h"
#include "gpu_bench.h"
#include "harness/ceiling.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  bool ceilings = false;
  std::string device = "cpu";
};

// Of a number of threads of the CPU; of a GPU: 0.
struct Measured {
  int32_t threads;
  std::vector<Ceiling> ceilings;
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

std::string name_of(const Ceiling& c) {
  return c.bytes == 0 ? c.name : fmt::format("{} {}", c.name, human_bytes(static_cast<double>(c.bytes)));
}

void print_cpu(const std::vector<Measured>& measured) {
  std::vector<std::string> header = {"ceiling"};
  for (const Measured& m : measured) {
    header.push_back(fmt::format("{} thread{}", m.threads, m.threads == 1 ? "" : "s"));
  }
  header.emplace_back("unit");
  Table table(header);
  for (size_t i = 0; i < measured.front().ceilings.size(); ++i) {
    std::vector<std::string> row = {name_of(measured.front().ceilings[i])};
    for (const Measured& m : measured) {
      row.push_back(short_number(m.ceilings[i].value));
    }
    row.push_back(measured.front().ceilings[i].unit);
    table.add(std::move(row));
  }
  table.print();
}

void print_gpu(const std::vector<Ceiling>& ceilings) {
  Table table({"ceiling", "value", "unit", "us"});
  for (const Ceiling& c : ceilings) {
    const bool rate = c.unit.ends_with("OP/s");  // "GFLOP/s" in thousands
    const double us = static_cast<double>(c.bytes) / (c.value * 1e3);
    table.add({name_of(c), rate ? fmt::format("{:.0f}", c.value / 1e3) : short_number(c.value),
               rate ? "T" + c.unit.substr(1) : c.unit, c.bytes == 0 ? "" : short_number(us)});
  }
  table.print();
  if (harness::rate_of(ceilings, "e4m3_n128_normal") == 0) {
    fmt::print("Matrix rates are measured on compute capability 9.0 only.\n");
  }
}

void print_ceilings(const std::vector<Measured>& measured, const scalegemm_device_info& device) {
  fmt::print("\nCeilings of {}, measured now:\n", device.name);
  if (measured.front().threads == 0) {
    print_gpu(measured.front().ceilings);
  } else {
    print_cpu(measured);
  }
}

std::vector<Measured> measure(const Runtime& runtime, const Options& options,
                              const scalegemm_device_info& device) {
  std::vector<int32_t> threads = {0};
  if (std::string(device.name) == "cpu") {
    const int32_t most = options.runtime.threads > 0 ? options.runtime.threads : device.cores;
    threads = most > 1 ? std::vector<int32_t>{1, most} : std::vector<int32_t>{1};
  }
  Progress progress(options.progress.show(), static_cast<int64_t>(threads.size()));
  std::vector<Measured> measured;
  for (const int32_t n : threads) {
    progress.step(static_cast<int64_t>(measured.size()), n == 0
                                                             ? fmt::format("measuring {}", device.name)
                                                             : fmt::format("measuring with {} threads", n));
    measured.push_back({n, runtime.measure_ceilings(device.name, n)});
  }
  return measured;
}

int run(const Options& options) {
  const Runtime runtime = options.runtime.make_runtime();
  const auto devices = runtime.devices();
  std::vector<Measured> measured;
  scalegemm_device_info device{};
  if (options.ceilings) {
    device = find_device(runtime, options.device);
    measured = measure(runtime, options, device);
  }
  Json json = {{"version", scalegemm_version()}, {"devices", Json::array()}, {"toolchains", Json::array()}};
  for (const auto& row : devices) {
    json["devices"].push_back(json_of(row));
  }
  for (const auto& toolchain : toolchains(runtime)) {
    json["toolchains"].push_back(json_of(toolchain));
  }
  if (options.ceilings) {
    json["ceilings"] = Json::array();
    for (const auto& [threads, ceilings] : measured) {
      json["ceilings"].push_back(json_of(ceilings, device.name, threads));
    }
  }
  if (!options.json.replaces_text()) {
    fmt::print("scalegemm  {}\n", scalegemm_version());
    print_devices(devices);
    print_toolchains(toolchains(runtime));
    if (options.ceilings) {
      print_ceilings(measured, device);
    }
  }
  options.json.write(json);
  return kExitOk;
}

}  // namespace

void add_info(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("info", "Devices, toolchains, measured ceilings");
  CLI::Option* ceilings =
      command->add_flag("--ceilings", options->ceilings, "Measure what the hardware can do (some seconds)");
  command->add_option("--device", options->device, "Device to measure: cpu, cuda:0")
      ->needs(ceilings)
      ->capture_default_str();
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
