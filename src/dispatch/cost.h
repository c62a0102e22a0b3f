// The analytic cost of a CPU kernel on a problem: what dispatch ranks by where nothing was measured.
//
//   total = launch + max(compute + decode, memory) + 0.3 * min(compute + decode, memory)
//
// compute  multiply-adds of the padded tiles over the measured rate of the pipeline
// decode   vector operations that turn codes into operands and apply scales, at the f32 rate
// memory   bytes of A, B, their scales and D over the measured read bandwidth
//
// Rates are those of one thread, all of them scaled by the thread count. It is a model: good to tell routes
// apart (int8 dot against f32, AVX2 against AVX-512), not to promise a time.
#pragma once

#include <cstdint>

#include "spec/device_desc.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::dispatch {

// Microseconds.
struct Cost {
  double compute_us = 0;
  double decode_us = 0;
  double memory_us = 0;
  double relayout_us = 0;  // on a GPU: copying operands that TMA cannot address, before the kernel
  double total_us = 0;
};

// `spec` is a legal CPU kernel that takes the (valid) problem. Rates of 0 count as one vector instruction a
// nanosecond, so that an unprobed processor still gets a sensible order.
Cost predict(const spec::KernelSpec& spec, const spec::Problem& problem, const spec::CpuRates& rates,
             int threads);

// Bytes that a problem must move: operands in their stored form with scales and zero points, C, bias and D.
double problem_bytes(const spec::Problem& problem);

}  // namespace scalegemm::dispatch
