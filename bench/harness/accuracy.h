// How far results are off, rather than whether they are within their bound.
#pragma once

#include <string>

#include "harness/case.h"
#include "harness/instance.h"
#include "harness/oracle.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

struct AccuracyResult {
  Case c;
  std::string kernel;
  Errors errors;          // of the compared elements: sampled rows and columns
  bool verified = false;  // each within its bound, too
  std::string problem;    // why not, or why the case was not run
};

// Runs the case once and compares it with the oracle. The case has no epilogue and D in f32.
AccuracyResult measure_accuracy(const Runtime& runtime, const Case& c, const PlanChoice& choice);

}  // namespace scalegemm::harness
