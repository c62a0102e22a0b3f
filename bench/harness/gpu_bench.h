// Times on a GPU: one shape in one scheme, kernels and peers interleaved in one process.
//
// Each call lies between two events of the default stream, candidates interleaved in an order that changes
// from round to round, operand sets rotating over twice the L2 cache. Never one list after the other: the
// chip's clock falls within milliseconds of full load, so a list timed in order ranks by position.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/ceiling.h"
#include "harness/instance.h"
#include "harness/timing.h"
#include "harness/trials.h"

namespace scalegemm::harness {

struct GpuBenchOptions {
  TimingOptions timing{.warmup = 50, .repeat = 100, .budget_s = 0.5};
  PlanChoice choice;                         // device, and a kernel or the dispatcher's choice
  std::vector<std::string> kernels;          // tune: the candidates; the best is measured at length
  bool peers = false;                        // also cuBLASLt, where it has the scheme's scale mode
  Ceilings ceilings;                         // of the device, for the share
  int64_t most_products = int64_t{1} << 24;  // of the oracle
  std::function<void(const std::string&)> report = [](const std::string&) {
  };                         // progress and what was left out
  Trials* trials = nullptr;  // tune: each candidate runs once on its own before any is timed
};

struct PeerResult {
  std::string name;
  Timing timing;
  std::string problem;  // why it was not timed
};

struct GpuBenchResult {
  Case c;
  std::string kernel;
  Timing timing;
  double host_us = 0;   // median host time of one run
  double graph_us = 0;  // of one run among many that a graph replays one after the other
  double operations = 0;
  double bytes = 0;
  double share_of_ceiling = 0;  // 0 where no matrix rate of the operand types was measured
  bool verified = false;
  std::string problem;
  std::vector<PeerResult> peers;
};

GpuBenchResult bench_on_gpu(const Runtime& runtime, const Case& c, const GpuBenchOptions& options);

// Calls enqueue work on the default stream of the device.
std::vector<Timing> time_on_gpu(const Gpu& gpu, std::span<const Candidate> candidates,
                                const TimingOptions& options);

}  // namespace scalegemm::harness
