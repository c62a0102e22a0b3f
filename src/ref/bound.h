// The error model of docs/numerics.md, "What a kernel may be off". Internal to this room.
#pragma once

#include <cstdint>

#include "ref/gemm.h"
#include "spec/problem.h"

namespace scalegemm::ref {

// What all elements of a problem share.
struct ErrorModel {
  double relative = 0;   // times the sum of magnitudes
  double underflow = 0;  // times the peak product: results of f32 multiplications below 2^-126
  bool integer = false;  // int32: no error at all
  bool flushes = false;  // subnormal operands may count as zero
  bool zero_points = false;
};

ErrorModel error_model(const spec::Problem& problem, const Accumulator& accumulator);

// An element before the activation.
struct Sum {
  double value = 0;      // alpha * sum + beta*C + bias
  double magnitude = 0;  // |alpha| * sum of weights + |beta*C| + |bias|
  double peak = 0;       // a bound of every product of some factors of one term, times K
  bool infinite_scale = false;
};

// Applies activation and clamp, and finds the interval.
Element judge(const spec::Problem& problem, const ErrorModel& model, const Sum& sum);

// act(x) in double.
double activate(spec::Activation activation, double x);

}  // namespace scalegemm::ref
