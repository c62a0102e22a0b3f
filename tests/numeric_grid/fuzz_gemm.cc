// Differential fuzzer: random problem -> plan -> run -> compared with the oracle, guards checked.
//
//   fuzz_gemm [--seconds S] [--seed I] [--case I]
//
// Case number i of a seed is the same on every machine; a failure prints how to repeat it. Exit code 1 when
// anything is wrong.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harness/buffer.h"
#include "harness/grid.h"
#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr int64_t kMostProducts = int64_t{1} << 22;

struct Options {
  double seconds = 60;
  uint64_t seed = 1;
  std::optional<uint64_t> only;
};

struct Tally {
  uint64_t run = 0;
  uint64_t exact = 0;
  uint64_t unsupported = 0;
  double worst_ratio = 0;
};

Case case_number(const Options& options, uint64_t index) {
  Random random(options.seed * 0x9E3779B97F4A7C15u + index);
  return random_case(random, kMostProducts);
}

// Empty when the case is right; adds to the tally.
std::string try_case(const Runtime& runtime, const Case& c, uint64_t index, Tally& tally) {
  const scalegemm_support support = runtime.query(problem_of(c));
  if (support.supported == 0) {
    ++tally.unsupported;
    return "unsupported: " + std::string(support.reason);
  }
  const auto data = std::make_shared<CaseData>(make_case_data(c));
  const uint8_t poison = index % 2 == 0 ? 0xFF : 0x7F;
  Instance instance(runtime, data, {.threads = static_cast<int32_t>(index % 3), .kernel = ""}, poison);
  instance.run();
  if (std::string wrong = instance.check_memory(); !wrong.empty()) {
    return wrong;
  }
  const Verdict verdict = judge(*data, instance.output(), choose_probe(data->problem, kMostProducts, c.seed));
  if (verdict.wrong) {
    return to_string(*verdict.wrong);
  }
  ++tally.run;
  tally.exact += c.fill == Fill::kExact ? 1 : 0;
  tally.worst_ratio = std::max(tally.worst_ratio, verdict.worst_ratio);
  return "";
}

int fuzz(const Options& options) {
  const Runtime runtime;
  const FaultReporter faults;
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Tally tally;
  for (uint64_t i = options.only.value_or(0); options.only ? i == *options.only : spent() < options.seconds;
       ++i) {
    const Case c = case_number(options, i);
    std::string wrong;
    try {
      wrong = try_case(runtime, c, i, tally);
    } catch (const Error& error) {
      wrong = fmt::format("{}: {}", scalegemm_status_name(error.status()), error.what());
    }
    if (!wrong.empty()) {
      fmt::print("FAIL case {} of seed {}: {}\n  fill {}, {}\n  repeat with: fuzz_gemm --seed {} --case {}\n",
                 i, options.seed, wrong, static_cast<int>(c.fill), to_string(c), options.seed, i);
      return 1;
    }
  }
  fmt::print(
      "seed {}: {} problems right ({} of them bit-exact) in {:.0f} s; largest error {:.3f} of its bound\n",
      options.seed, tally.run, tally.exact, spent(), tally.worst_ratio);
  return tally.run > 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = i + 1 < argc ? argv[i] : "";
    if (option == "--seconds") {
      options.seconds = std::atof(argv[i + 1]);
    } else if (option == "--seed") {
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--case") {
      options.only = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      fmt::print(stderr, "usage: fuzz_gemm [--seconds S] [--seed I] [--case I]\n");
      return 2;
    }
  }
  return fuzz(options);
}

}  // namespace
}  // namespace scalegemm::harness

int main(int argc, char** argv) {
  return scalegemm::harness::main_of(argc, argv);
}
