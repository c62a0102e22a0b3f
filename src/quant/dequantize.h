// Dequantisers: the inverse of quant/quantize.h.
//
//   x(r,k) = (code(r,k) - zero(r/br, k/bk)) * scale(r/br, k/bk) * global
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "quant/quantize.h"
#include "spec/problem.h"

namespace scalegemm::quant {

// Codes, scales and zero points in the form that quantize() writes, sizes as in OutputSizes. `global` is read
// where the operand has a global factor.
struct QuantizedView {
  int64_t rows = 0;
  int64_t k = 0;
  std::span<const std::byte> codes = {};
  std::span<const std::byte> scales = {};
  std::span<const std::byte> zeros = {};
  const float* global = nullptr;
};

inline QuantizedView view(const QuantizedMatrix& m) {
  return {
      .rows = m.rows, .k = m.k, .codes = m.codes, .scales = m.scales, .zeros = m.zeros, .global = &m.global};
}

// Where the numbers go: element (r, j) to data[r*stride_r + j*stride_k].
template <class T>
struct Destination {
  T* data = nullptr;
  int64_t stride_r = 0;
  int64_t stride_k = 1;
};

// In f32: code - zero is exact; scale * global and the product are rounded once each. Overflow is infinity.
Status dequantize(const spec::OperandSpec& operand, const QuantizedView& source,
                  const Destination<float>& out);

// In double, exact but for the last of 53 bits where a global factor takes part.
Status dequantize(const spec::OperandSpec& operand, const QuantizedView& source,
                  const Destination<double>& out);

}  // namespace scalegemm::quant
