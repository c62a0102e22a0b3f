// Codes, scales and zero points of an operand, as contiguous row-major host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/case.h"
#include "num/dtype.h"
#include "scalegemm/scalegemm.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

// Which operand: A is filled like activations, B like weights.
enum class Side : uint8_t { kA, kB };

// batch x rows x K. Codes of 4-bit types: K/2 bytes a row. Zero points: one byte each. An absent grid is an
// empty vector.
struct OperandData {
  scalegemm_operand_desc desc{};
  int64_t rows = 0;
  int64_t k = 0;
  int64_t batch = 1;
  int64_t grid_rows = 0;  // of the scales of one batch index
  int64_t grid_k = 0;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  std::vector<uint8_t> zeros;
  std::optional<float> global;

  // Tensors over that memory.
  scalegemm_tensor codes_tensor();
  scalegemm_tensor scales_tensor();
  scalegemm_tensor zeros_tensor();
  uint64_t bytes() const {
    return codes.size() + scales.size() + zeros.size() + (global ? sizeof(float) : 0);
  }
};

// What surrounds a sum over K in an exact case, so that the epilogue stays exact too.
struct ExactUnits {
  double sum = 1;   // every sum over K is a multiple of this
  float alpha = 1;  // a power of two that brings sums into the range of D's type
};

// Zeroed memory for an operand of that description.
OperandData allocate_operand(const scalegemm_operand_desc& desc, int64_t rows, int64_t k, int64_t batch);

// The operand of that side of the case. Exact fills follow docs/numerics.md.
OperandData make_operand(const Case& c, const scalegemm_problem& problem, Side side);

// Meaningful for exact fills only.
ExactUnits exact_units(const Case& c, const scalegemm_problem& problem);

// Quantises a contiguous f32 matrix of rows x K (batch 1).
OperandData quantize(const scalegemm_operand_desc& desc, const float* values, int64_t rows, int64_t k,
                     const scalegemm_quantize_options* options = nullptr);

// Normal values with the spread between rows that weights have, an adversary's, or ones; deterministic in
// seed.
std::vector<float> normal_values(Fill fill, Side side, int64_t rows, int64_t k, uint64_t seed);

// A small, fast, seedable generator (SplitMix64, Steele et al. 2014): the same numbers on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % static_cast<uint64_t>(bound)); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal();

 private:
  uint64_t state_;
};

// dtype of the C ABI as the type of the num room; the value must be a type.
inline num::DType dtype_of(int32_t dtype) {
  return static_cast<num::DType>(dtype);
}

// Bytes of rows x k codes.
inline int64_t code_bytes(int32_t dtype, int64_t rows, int64_t k) {
  return rows * num::bytes_of(dtype_of(dtype), k);
}

}  // namespace scalegemm::harness
