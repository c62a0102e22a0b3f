#include "harness/bench.h"

#include <algorithm>
#include <memory>

#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr uint8_t kPoison = 0xFF;

// The copies of one case, run in turn.
struct Rotation {
  std::vector<std::unique_ptr<Instance>> copies;
  size_t next = 0;

  void run() {
    copies[next]->run_again();
    next = (next + 1) % copies.size();
  }
};

size_t copies_wanted(uint64_t bytes, const BenchOptions& options) {
  if (options.warm) {
    return 1;
  }
  const uint64_t cold = 2 * options.last_cache_bytes / std::max<uint64_t>(bytes, 1) + 1;
  const uint64_t room = std::max<uint64_t>(options.most_copy_bytes / std::max<uint64_t>(bytes, 1), 1);
  return static_cast<size_t>(std::min({cold, room, static_cast<uint64_t>(options.most_copies)}));
}

// Verifies the first copy and makes the others; empty when the case cannot be timed.
Rotation prepare(const Runtime& runtime, const Case& c, const BenchOptions& options, BenchResult& result) {
  Rotation rotation;
  try {
    const auto data = std::make_shared<CaseData>(make_case_data(c));
    rotation.copies.push_back(std::make_unique<Instance>(runtime, data, options.choice, kPoison));
    result.work.kernel = rotation.copies.front()->kernel();
    const ProofResult proof = check_once(*rotation.copies.front(), options.most_products);
    result.verified = proof.passed;
    if (!proof.passed) {
      result.problem = proof.detail;
      return {};
    }
    const uint64_t bytes = rotation.copies.front()->traffic_bytes();
    const size_t copies = copies_wanted(bytes, options);
    result.cold = copies * bytes > 2 * options.last_cache_bytes;
    while (rotation.copies.size() < copies) {
      rotation.copies.push_back(std::make_unique<Instance>(runtime, data, options.choice, kPoison));
    }
  } catch (const Error& error) {
    result.verified = false;
    result.problem = error.what();
    return {};
  }
  return rotation;
}

// What a run costs besides arithmetic: argument checks, the way to the kernel, its prologue.
double host_cost_us(const Runtime& runtime, Case c) {
  c.m = c.n = c.batch = 1;
  c.k = 2;
  constexpr int kRuns = 20;  // a time: one run is too short for the clock
  try {
    Instance least(runtime, std::make_shared<CaseData>(make_case_data(c)), {.threads = 1, .kernel = {}},
                   kPoison);
    const Candidate runs[] = {[&] {
      for (int i = 0; i < kRuns; ++i) {
        least.run_again();
      }
    }};
    return time_interleaved(runs, {.warmup = 10, .repeat = 50, .budget_s = 0.02}).front().median_us / kRuns;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::vector<BenchResult> bench_shape(const Runtime& runtime, const std::vector<Case>& cases,
                                     const BenchOptions& options) {
  std::vector<BenchResult> results(cases.size());
  std::vector<Rotation> rotations(cases.size());
  std::vector<Candidate> candidates;
  std::vector<size_t> timed;
  for (size_t i = 0; i < cases.size(); ++i) {
    results[i].c = cases[i];
    rotations[i] = prepare(runtime, cases[i], options, results[i]);
    if (!rotations[i].copies.empty()) {
      candidates.emplace_back([&rotation = rotations[i]] { rotation.run(); });
      timed.push_back(i);
    }
  }
  const std::vector<Timing> timings = time_interleaved(candidates, options.timing);
  for (size_t t = 0; t < timed.size(); ++t) {
    BenchResult& result = results[timed[t]];
    const Case& c = result.c;
    result.timing = timings[t];
    result.work.operations = 2.0 * static_cast<double>(c.batch) * static_cast<double>(c.m) *
                             static_cast<double>(c.n) * static_cast<double>(c.k);
    result.work.bytes = static_cast<double>(rotations[timed[t]].copies.front()->traffic_bytes());
    result.work.microseconds = result.timing.median_us;
    result.host_us = host_cost_us(runtime, c);
  }
  return results;
}

}  // namespace scalegemm::harness
