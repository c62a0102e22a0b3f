// Quantisers: f32 matrix -> codes, scales, zero points and a global factor, for any operand that
// spec::OperandSpec can describe; every scheme is a value of that struct. docs/numerics.md has the formulas,
// their sources and the table of edge cases. Pure functions over the caller's memory: no threads, no files;
// thread-safe.
//
// All of them keep one rule: **the scale used is the scale stored**. A block's scale is first rounded to its
// type, then decoded (and multiplied by the global factor, in f32), and only then are the elements divided by
// it:
//
//   code = encode(type, x / (decode(scale code) * global), saturating)
//   code = clamp(round(x / (decode(scale code) * global)) + zero)              with zero points
//
// What is not ordinary data:
//   a block of zeros            scale 1, codes 0 (a zero keeps its sign), zero point 0
//   a scale that rounds to 0    the smallest positive value of the scale's type instead
//   a scale past its type       the largest finite value; elements saturate
//   NaN or infinity in a block  the scale of that block is NaN and its codes are 0, so that all of it
//   dequantises
//                               to NaN and no product hides it; other blocks, and the global factor, ignore
//                               it
//   no scale at all             a plain cast: f32, f16, bf16 as IEEE; narrower types saturate. NaN needs a
//   type that
//                               has one, else the matrix is refused
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "num/dtype.h"
#include "spec/problem.h"

namespace scalegemm::quant {

// Which power of two an e8m0 scale becomes, when amax lies between two of them. With 2^e <= amax < 2^(e+1),
// emax the exponent of the element type's largest value and m its mantissa bits:
//   kFloor  2^(e - emax). OCP MX v1.0, section 6.3; elements past the largest value saturate
//   kEven   as kFloor, after amax was rounded to m mantissa bits, ties up ("even" of AMD Quark and AITER)
//   kCeil   the smallest power of two with which no element saturates
// Numeric values equal scalegemm_scale_rounding.
enum class ScaleRounding : uint8_t { kFloor = 0, kEven = 1, kCeil = 2 };

std::string_view name(ScaleRounding rounding);  // "floor", "even", "ceil"

struct QuantizeOptions {
  ScaleRounding scale_rounding = ScaleRounding::kFloor;  // of e8m0 scales
};

// rows x k numbers; element (r, j) is at data[r*stride_r + j*stride_k]. Any strides; only these elements are
// read.
struct FloatMatrix {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t k = 0;
  int64_t stride_r = 0;
  int64_t stride_k = 1;
};

// Bytes of the outputs: codes row-major rows x k (4-bit: k/2 bytes a row, even k in the low nibble); scales a
// row-major grid in their own type; zero points the same grid, one byte each (4-bit ones in the low nibble).
// 0 where the operand has none. The operand's layout plays no part.
struct OutputSizes {
  size_t codes = 0;
  size_t scales = 0;
  size_t zeros = 0;
  spec::Grid grid = {};  // 0 x 0 without scales
};

// Refuses what spec::validate refuses: types, blocks, sizes, an odd k for 4-bit types.
Result<OutputSizes> output_sizes(const spec::OperandSpec& operand, int64_t rows, int64_t k);

// Spans have exactly the size of OutputSizes, at any alignment. `global` is set where the operand has a
// global factor (and may be null where it has none).
struct QuantizeOutputs {
  std::span<std::byte> codes = {};
  std::span<std::byte> scales = {};
  std::span<std::byte> zeros = {};
  float* global = nullptr;
};

// Fails, besides what output_sizes refuses, for: a span of the wrong size; uint4 without zero points and a
// negative value; NaN where neither the type nor a scale can hold it. Outputs are undefined after a failure.
Status quantize(const spec::OperandSpec& operand, const FloatMatrix& source, const QuantizeOptions& options,
                const QuantizeOutputs& out);

// The same with memory of its own.
struct QuantizedMatrix {
  spec::OperandSpec operand = {};
  int64_t rows = 0;
  int64_t k = 0;
  spec::Grid grid = {};
  std::vector<std::byte> codes = {}, scales = {}, zeros = {};
  float global = 1;
};
Result<QuantizedMatrix> quantize(const spec::OperandSpec& operand, const FloatMatrix& source,
                                 const QuantizeOptions& options);

// The e8m0 code for a block whose largest magnitude is `amax` (finite, > 0), for elements of `type`.
uint32_t mx_scale(float amax, spec::DType type, ScaleRounding rounding);

}  // namespace scalegemm::quant
