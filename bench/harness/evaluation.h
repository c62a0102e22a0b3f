// The weights of one shape in every scheme: quantised, packed, run, proved and timed side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/instance.h"
#include "harness/timing.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

// Weights of N x K that a model holds.
struct WeightGroup {
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 0;  // in the model
  // The values of weight number i < weights, row-major N x K; of the first `weights` of them.
  int64_t weights = 0;
  std::function<std::vector<float>(int64_t i)> load;
};

struct EvaluationOptions {
  std::vector<std::string> schemes;  // the f32 baseline is measured whether it is among them or not
  std::vector<int64_t> ms;           // rows of A, at least one
  std::vector<float> activations;    // at least the largest m, times K values
  PlanChoice choice;
  TimingOptions timing{.warmup = 5, .repeat = 100, .budget_s = 0.03};
  int64_t most_products = int64_t{1} << 19;              // of the oracle, for each weight, scheme and m
  std::function<bool(const std::string& what)> proceed;  // progress; false: stop soon
};

struct EvaluationResult {
  std::string scheme;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 0;
  int64_t m = 0;
  std::string kernel;
  double bits_per_weight = 0;  // codes, scales and zero points as stored
  double packed_bytes = 0;     // of all `count` weights
  double signal = 0;           // sum of squares of the f32 outputs at the largest m, of all measured weights
  double noise = 0;            // sum of squares of the differences from them
  double worst_ratio = 0;      // largest error over its bound
  Timing timing;               // of one multiplication
  bool verified = false;
  std::string problem;  // why it was not run, or where it is wrong
};

inline constexpr const char* kBaselineScheme = "none:a=f32";

// A result for every scheme (the baseline first) and m; fewer when `proceed` says stop.
std::vector<EvaluationResult> evaluate_group(const Runtime& runtime, const WeightGroup& group,
                                             const EvaluationOptions& options);

}  // namespace scalegemm::harness
