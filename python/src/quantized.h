// A quantised matrix: codes with their scales, described once.
#pragma once

#include <nanobind/nanobind.h>

#include "describe.h"
#include "problem.h"

namespace scalegemm::python {

struct Quantized {
  nb::object codes, scales, zeros, global_scale;  // arrays of the caller, or None
  Operand operand;
  Device device;
  scalegemm_tensor code_tensor{}, scale_tensor{}, zero_tensor{};
  float* global = nullptr;
  int ndim = 0;
};

// Describes the arrays and checks their types and devices against the operand.
Quantized make_quantized(nb::object codes, const Operand& operand, nb::object scales, nb::object zeros,
                         nb::object global_scale);

// The layout that the strides of a rows x K tensor have: of A the row layout is K-contiguous, of B the column
// layout is.
enum class Side : uint8_t { kA, kB };
int32_t layout_of(const scalegemm_tensor& tensor, Side side);

void bind_quantized(nb::module_& m);

}  // namespace scalegemm::python
