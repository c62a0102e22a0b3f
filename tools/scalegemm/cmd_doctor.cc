// scalegemm doctor: does everything work here, and what to do where it does not.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>

#include "app.h"
#include "facts.h"
#include "harness/proofs.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
};

enum class State : uint8_t { kOk, kWarning, kBroken };

struct Finding {
  State state;
  std::string what;
  std::string detail;
  std::string fix;
};

const char* to_string(State state) {
  constexpr const char* kWords[] = {"ok", "warning", "broken"};
  return kWords[static_cast<size_t>(state)];
}

std::vector<Finding> check_devices(const Runtime& runtime) {
  std::vector<Finding> findings;
  for (const scalegemm_device_info& device : runtime.devices()) {
    findings.push_back({State::kOk, "device",
                        fmt::format("{}: {}, target {}", device.name, device.model, device.target), ""});
  }
  return findings;
}

std::vector<Finding> check_cache(const Runtime& runtime) {
  auto cache = make<scalegemm_cache_info>();
  if (scalegemm_cache(runtime.get(), &cache) != SCALEGEMM_OK) {
    return {{State::kWarning, "cache", scalegemm_last_error(),
             "set SCALEGEMM_CACHE_DIR to a folder of your own"}};
  }
  if (cache.writable == 0) {
    return {{State::kWarning, "cache",
             fmt::format("{} cannot be written: compiled kernels are not kept", cache.path),
             "set SCALEGEMM_CACHE_DIR to a folder that you may write to"}};
  }
  return {{State::kOk, "cache",
           fmt::format("{}: {} kernels, {}", cache.path, cache.entries,
                       human_bytes(static_cast<double>(cache.bytes))),
           ""}};
}

std::vector<Finding> check_toolchains(const Runtime& runtime) {
  std::vector<Finding> findings;
  for (const scalegemm_toolchain_info& t : toolchains(runtime)) {
    const bool usable = t.problem[0] == '\0';
    findings.push_back(
        {usable ? State::kOk : State::kWarning, "toolchain",
         usable ? fmt::format("{}: {}", t.name, t.version) : fmt::format("{}: not usable", t.name),
         usable ? "" : t.problem});
  }
  return findings;
}

// Compiles a kernel for the best target of every device as run time would, and says what that brought to
// light.
std::vector<Finding> check_compiling(const Runtime& runtime) {
  std::vector<Finding> findings;
  for (const scalegemm_device_info& device : runtime.devices()) {
    struct Search {
      std::string target;
      std::string name;
    } search = {device.target, {}};
    const auto last = [](const scalegemm_kernel_info* info, void* user) -> int32_t {
      auto* wanted = static_cast<Search*>(user);
      if (wanted->target == info->target) {
        wanted->name = info->name;
      }
      return 0;
    };
    check(scalegemm_kernels(runtime.get(), nullptr, last, &search));
    if (search.name.empty()) {
      continue;  // nothing is built in for it
    }
    if (scalegemm_kernel_build(runtime.get(), search.name.c_str(), 1) != SCALEGEMM_OK) {
      findings.push_back({State::kWarning, "compiling", scalegemm_last_error(),
                          "the built-in kernels need no compiler; for others mend what the message names"});
    } else {
      findings.push_back({State::kOk, "compiling", search.name, ""});
    }
  }
  std::istringstream warnings(runtime.warnings());
  for (std::string line; std::getline(warnings, line);) {
    findings.push_back({State::kWarning, "runtime", line, "results are right; mend what it names for speed"});
  }
  return findings;
}

// A small problem of every scheme, proved.
std::vector<Finding> check_schemes(const Runtime& runtime, Progress& progress) {
  std::vector<Finding> findings;
  size_t proved = 0;
  int64_t done = 0;
  for (const std::string& scheme : harness::known_schemes()) {
    progress.step(++done, scheme);
    harness::Case c;
    c.scheme = scheme;
    c.m = 5;
    c.n = 33;
    c.k = 258;
    c.packing = SCALEGEMM_PACKED;
    try {
      const harness::ProofReport report = harness::prove(runtime, c, {});
      for (const harness::ProofResult& result : report.results) {
        if (!result.passed) {
          findings.push_back({State::kBroken, "scheme " + scheme, result.detail,
                              "please report this with: scalegemm verify " + harness::to_string(c)});
        }
      }
      proved += report.passed() ? 1 : 0;
    } catch (const Error& error) {
      findings.push_back({State::kBroken, "scheme " + scheme, error.what(), advice(error.status())});
    }
  }
  findings.push_back(
      {State::kOk, "schemes",
       fmt::format("{} of {} proved on a small problem", proved, harness::known_schemes().size()), ""});
  return findings;
}

int run(const Options& options) {
  const Runtime runtime = options.runtime.make_runtime();
  const harness::FaultReporter faults;
  Progress progress(options.progress.show(), static_cast<int64_t>(harness::known_schemes().size()) + 1);
  progress.step(0, "compiling a kernel");
  std::vector<Finding> findings;
  const auto take = [&findings](std::vector<Finding> part) {
    std::move(part.begin(), part.end(), std::back_inserter(findings));
  };
  take(check_devices(runtime));
  take(check_toolchains(runtime));
  if (!options.runtime.no_jit) {
    take(check_compiling(runtime));
  }
  take(check_cache(runtime));
  take(check_schemes(runtime, progress));
  progress.clear();
  bool broken = false;
  Json json = {{"findings", Json::array()}};
  for (const Finding& f : findings) {
    broken = broken || f.state == State::kBroken;
    json["findings"].push_back(
        {{"state", to_string(f.state)}, {"what", f.what}, {"detail", f.detail}, {"fix", f.fix}});
    if (!options.json.replaces_text()) {
      fmt::print("{:<8} {}: {}\n", to_string(f.state), f.what, f.detail);
      if (!f.fix.empty()) {
        fmt::print("         fix: {}\n", f.fix);
      }
    }
  }
  json["healthy"] = !broken;
  options.json.write(json);
  return broken ? kExitFailure : kExitOk;
}

}  // namespace

void add_doctor(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("doctor", "Check this installation and say what to mend");
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
