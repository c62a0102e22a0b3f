// Matrices and operands for the tests of quant.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quant/dequantize.h"
#include "quant/quantize.h"

namespace scalegemm::quant {

using num::DType;
using spec::kAll;
using spec::OperandSpec;
using spec::ScaleSpec;

inline OperandSpec operand(DType type, std::optional<ScaleSpec> scale = std::nullopt) {
  return {.type = type, .layout = spec::Layout::kRow, .scale = scale};
}

inline ScaleSpec blocks(DType type, int64_t rows, int64_t k) {
  return {.type = type, .block_rows = rows, .block_k = k, .zero_type = std::nullopt, .global = false};
}

inline ScaleSpec nvfp4() {
  return {.type = DType::kE4m3, .block_rows = 1, .block_k = 16, .zero_type = std::nullopt, .global = true};
}

inline ScaleSpec with_zeros(DType scale, int64_t k, DType zero) {
  return {.type = scale, .block_rows = 1, .block_k = k, .zero_type = zero, .global = false};
}

// Every scheme of the design, with every group length; `text` names it in failures.
struct Case {
  std::string text;
  OperandSpec operand;
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& text, DType type, std::optional<ScaleSpec> scale) {
    cases.push_back({std::string(num::name(type)) + " " + text, operand(type, scale)});
  };
  for (DType type : {DType::kE4m3, DType::kE5m2, DType::kE4m3Fnuz, DType::kE5m2Fnuz, DType::kInt8}) {
    add("tensor", type, blocks(DType::kF32, kAll, kAll));
    add("row", type, blocks(DType::kF32, 1, kAll));
    add("128x128", type, blocks(DType::kF32, 128, 128));
  }
  for (int64_t g : {int64_t{16}, int64_t{32}, int64_t{64}, int64_t{128}, int64_t{256}, kAll}) {
    const std::string size = std::to_string(g);
    for (DType scale : {DType::kF32, DType::kF16, DType::kBf16}) {
      const std::string text = "1x" + size + " " + std::string(num::name(scale));
      for (DType type : {DType::kE4m3, DType::kE5m2, DType::kInt8, DType::kInt4, DType::kE2m1}) {
        add(text, type, blocks(scale, 1, g));
      }
      for (DType type : {DType::kInt8, DType::kInt4, DType::kUint4}) {
        for (DType zero : {DType::kInt8, DType::kInt4, DType::kUint4}) {
          add(text + " zero " + std::string(num::name(zero)), type, with_zeros(scale, g, zero));
        }
      }
    }
    add("gxg " + size, DType::kE4m3, blocks(DType::kF32, g, g));
  }
  for (DType type : {DType::kE2m1, DType::kE4m3, DType::kE5m2}) {
    add("mx", type, blocks(DType::kE8m0, 1, 32));
    add("mx 1x128", type, blocks(DType::kE8m0, 1, 128));
  }
  add("nvfp4", DType::kE2m1, nvfp4());
  return cases;
}

inline std::vector<float> normal_matrix(int64_t rows, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (float& value : values) {
    // Magnitudes differ from block to block, so that scales do too.
    value = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 5) - 2);
  }
  return values;
}

inline FloatMatrix matrix(const std::vector<float>& values, int64_t rows, int64_t k) {
  return {.data = values.data(), .rows = rows, .k = k, .stride_r = k, .stride_k = 1};
}

inline QuantizedMatrix must_quantize(const OperandSpec& spec, const FloatMatrix& source,
                                     ScaleRounding rounding = ScaleRounding::kFloor) {
  Result<QuantizedMatrix> result = quantize(spec, source, {.scale_rounding = rounding});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : QuantizedMatrix{};
}

inline std::vector<float> must_dequantize(const QuantizedMatrix& q) {
  std::vector<float> values(static_cast<size_t>(q.rows * q.k));
  const Status status =
      dequantize(q.operand, view(q), Destination<float>{.data = values.data(), .stride_r = q.k});
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

}  // namespace scalegemm::quant
