// Times of one shape in several schemes: verified, then measured interleaved, with cold operands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/ceiling.h"
#include "harness/instance.h"
#include "harness/timing.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

struct BenchOptions {
  TimingOptions timing;
  PlanChoice choice;
  uint64_t last_cache_bytes = 0;  // copies of the operands together exceed twice this
  int most_copies = 64;           // and are no more than this
  uint64_t most_copy_bytes = uint64_t{1} << 31;
  bool warm = false;                         // one copy
  int64_t most_products = int64_t{1} << 26;  // of the oracle
};

struct BenchResult {
  Case c;
  Timing timing;
  Work work;           // kernel, operations, bytes, median time
  double host_us = 0;  // of a run of the least problem of this kind (1 x 1 x 2) on one thread; 0: none such
  bool cold = false;   // the copies exceeded twice the last cache
  bool verified = false;
  std::string problem;  // why it was not verified or could not be run
};

// One result a case, in order. A case that cannot run or is wrong is reported and not timed.
std::vector<BenchResult> bench_shape(const Runtime& runtime, const std::vector<Case>& cases,
                                     const BenchOptions& options);

}  // namespace scalegemm::harness
