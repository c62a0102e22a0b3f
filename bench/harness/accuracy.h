// How far results are off, rather than whether they are within their bound.
#pragma once

#include <cstdint>
#include <string>

#include "harness/case.h"
#include "harness/instance.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

struct AccuracyResult {
  Case c;
  std::string kernel;
  // |d - exact| / sum over K of |a b| of the compared elements.
  double max_error = 0;
  double rms_error = 0;
  int64_t elements = 0;   // compared: sampled rows and columns
  bool verified = false;  // each within its bound, too
  std::string problem;    // why not, or why the case was not run
};

// Runs the case once and compares it with the oracle. The case has no epilogue and D in f32.
AccuracyResult measure_accuracy(const Runtime& runtime, const Case& c, const PlanChoice& choice);

}  // namespace scalegemm::harness
