// Raw operands as the oracle reads them: codes, scales, zero points wherever they lie in memory, decoded to
// double.
//
//   x(r,k) = (code(r,k) - zero(r/br, k/bk)) * scale(r/br, k/bk) * global
//
// Independent of src/quant and of every kernel: it uses only the number formats (num) and the problem (spec).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "spec/problem.h"

namespace scalegemm::ref {

// A strided grid of scales (of the spec's type) or zero points (one byte each; 4-bit ones in the low nibble).
// Strides count elements.
struct GridData {
  const void* data = nullptr;
  int64_t stride_r = 0;
  int64_t stride_k = 0;
};

// One operand seen as rows x K (rows: M of A, N of B). Strides count storage elements: for 4-bit types the
// byte with codes k (even, low nibble) and k + 1, at codes + r*stride_r + (k/2)*stride_k. Any strides, any
// alignment. Scales, zero points and global are read where the spec has them. The caller vouches for the
// memory.
struct OperandData {
  const void* codes = nullptr;
  int64_t stride_r = 0;
  int64_t stride_k = 0;
  GridData scales = {};
  GridData zeros = {};
  const float* global = nullptr;
};

// Some rows of an operand, decoded. `weight` is the magnitude that errors are measured by:
// (|code| + |zero|) * |scale * global|, which is |value| where there is no zero point.
struct Decoded {
  int64_t k = 0;
  std::vector<double> value;   // [row][k]
  std::vector<double> weight;  // [row][k]
  std::vector<double>
      peak;  // [row]: max over k of max(1, |code|+|zero|) * max(1, |scale|) * max(1, |global|)
  std::vector<bool> infinite_scale;  // [row]

  std::span<const double> value_row(size_t i) const {
    return std::span(value).subspan(i * stride(), stride());
  }
  std::span<const double> weight_row(size_t i) const {
    return std::span(weight).subspan(i * stride(), stride());
  }

 private:
  size_t stride() const { return static_cast<size_t>(k); }
};

// Null where something is missing that the spec needs; `name` is "A" or "B".
Status check(const spec::OperandSpec& spec, const OperandData& data, const char* name);

// Decodes the listed rows of an operand with `extent` rows in all. Exact, but for the last of 53 bits where a
// global factor takes part. The operand was checked and the rows lie inside it.
Decoded decode_rows(const spec::OperandSpec& spec, const OperandData& data, int64_t extent, int64_t k,
                    std::span<const int64_t> rows, double least_weight = 0);

}  // namespace scalegemm::ref
