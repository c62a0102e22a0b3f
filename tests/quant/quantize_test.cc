// Every scheme: codes, scales and zero points against formulas written out here once more, one element at a
// time.
#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "num/bulk.h"
#include "num/convert.h"
#include "quant/support.h"

namespace scalegemm::quant {
namespace {

using num::info;

double type_top(DType type) {
  return static_cast<double>(info(type).max_finite);
}

double type_bottom(DType type) {
  return info(type).is_signed ? -type_top(type) - 1 : 0;
}

// One block of a quantised matrix.
struct Block {
  int64_t r0, r1, k0, k1;
  int64_t index;
};

std::vector<Block> blocks_of(const QuantizedMatrix& q) {
  const ScaleSpec& s = *q.operand.scale;
  const int64_t br = s.block_rows == kAll ? q.rows : s.block_rows;
  const int64_t bk = s.block_k == kAll ? q.k : s.block_k;
  std::vector<Block> list;
  for (int64_t i = 0; i < q.grid.rows; ++i) {
    for (int64_t j = 0; j < q.grid.cols; ++j) {
      list.push_back(
          {i * br, std::min(q.rows, (i + 1) * br), j * bk, std::min(q.k, (j + 1) * bk), i * q.grid.cols + j});
    }
  }
  return list;
}

float scale_of(const QuantizedMatrix& q, const Block& b) {
  return num::decode(q.operand.scale->type, num::load_code(q.operand.scale->type, q.scales.data(), b.index));
}

double zero_of(const QuantizedMatrix& q, const Block& b) {
  return q.zeros.empty() ? 0.0
                         : num::decode_double(*q.operand.scale->zero_type,
                                              static_cast<uint32_t>(q.zeros[static_cast<size_t>(b.index)]));
}

// A zero-point type that cannot hold every code of the elements.
bool narrow_zero(const OperandSpec& spec) {
  const DType zero = spec.scale->zero_type.value_or(spec.type);
  return type_top(zero) < type_top(spec.type) || type_bottom(zero) > type_bottom(spec.type);
}

// The stored scale is the nearest one to extent / steps.
void check_scale(const QuantizedMatrix& q, const Block& b, double low, double high) {
  const DType type = q.operand.type;
  const ScaleSpec& spec = *q.operand.scale;
  const double amax = std::max(high, -low);
  const double stored = static_cast<double>(scale_of(q, b));
  if (spec.type == DType::kE8m0) {
    EXPECT_EQ(stored, std::exp2(std::floor(std::log2(amax)) - std::floor(std::log2(type_top(type)))));
    return;
  }
  if (narrow_zero(q.operand)) {
    return;  // ErrorIsAtMostHalfAStep judges the choice
  }
  const double global = static_cast<double>(q.global);
  const double ideal = spec.zero_type ? (std::max(high, 0.0) - std::min(low, 0.0)) /
                                            (type_top(type) - type_bottom(type)) / global
                                      : amax / type_top(type) / global;
  const uint32_t code = num::encode(spec.type, ideal, num::Overflow::kSaturate);
  for (uint32_t neighbour : {code - 1, code + 1}) {
    if (num::is_nan(spec.type, neighbour)) {
      continue;  // the largest e4m3 scale
    }
    EXPECT_LE(std::fabs(stored - ideal),
              std::fabs(num::decode_double(spec.type, neighbour) - ideal) * (1 + 1e-12));
  }
}

void check_elements(const QuantizedMatrix& q, const Block& b, const std::vector<float>& x) {
  const DType type = q.operand.type;
  const float used = scale_of(q, b) * q.global;
  const double zero = zero_of(q, b);
  for (int64_t r = b.r0; r < b.r1; ++r) {
    const std::byte* row = q.codes.data() + r * num::bytes_of(type, q.k);
    for (int64_t k = b.k0; k < b.k1; ++k) {
      const float steps = x[static_cast<size_t>(r * q.k + k)] / used;
      uint32_t expected = 0;
      if (info(type).is_float) {
        expected = num::encode(type, steps, num::Overflow::kSaturate);
      } else {
        const double top = type_top(type);
        const double bottom = q.zeros.empty() ? -top : type_bottom(type);
        expected =
            num::encode(type, std::clamp(std::nearbyint(static_cast<double>(steps)) + zero, bottom, top),
                        num::Overflow::kSaturate);
      }
      ASSERT_EQ(num::load_code(type, row, k), expected)
          << "row " << r << " k " << k << " of " << steps << " steps";
    }
  }
}

TEST(Quantize, EverySchemeFollowsItsFormula) {
  const int64_t shapes[][2] = {{1, 2}, {3, 34}, {5, 256}, {130, 300}};
  for (const Case& c : all_cases()) {
    for (const auto& [rows, k] : shapes) {
      SCOPED_TRACE(c.text + " " + std::to_string(rows) + "x" + std::to_string(k));
      const std::vector<float> x = normal_matrix(rows, k, 7);
      const QuantizedMatrix q = must_quantize(c.operand, matrix(x, rows, k));
      for (const Block& b : blocks_of(q)) {
        double low = 0, high = 0;
        for (int64_t r = b.r0; r < b.r1; ++r) {
          for (int64_t j = b.k0; j < b.k1; ++j) {
            const double value = static_cast<double>(x[static_cast<size_t>(r * k + j)]);
            low = std::min(low, value);
            high = std::max(high, value);
          }
        }
        check_scale(q, b, low, high);
        check_elements(q, b, x);
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

// Half a step of the number format is the most that an element which does not saturate may move.
TEST(Quantize, ErrorIsAtMostHalfAStep) {
  const int64_t rows = 40, k = 520;
  const std::vector<float> x = normal_matrix(rows, k, 8);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text);
    const QuantizedMatrix q = must_quantize(c.operand, matrix(x, rows, k), ScaleRounding::kCeil);
    const std::vector<float> y = must_dequantize(q);
    int64_t saturated = 0;
    for (const Block& b : blocks_of(q)) {
      const double s = static_cast<double>(scale_of(q, b)) * static_cast<double>(q.global);
      for (int64_t r = b.r0; r < b.r1; ++r) {
        for (int64_t j = b.k0; j < b.k1; ++j) {
          const size_t i = static_cast<size_t>(r * k + j);
          const double steps = std::fabs(static_cast<double>(x[i])) / s;
          double ulp = 1;
          if (info(c.operand.type).is_float) {
            const int smallest = 1 - info(c.operand.type).bias;
            ulp = std::exp2(std::max<double>(std::floor(std::log2(steps)), smallest) -
                            info(c.operand.type).mantissa_bits);
          }
          const double error = std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])) / s;
          // A scale rounded down by 2^-(m+1), m its mantissa bits, and a zero point rounded by half a step
          // let the extreme elements saturate by as much.
          const double range = type_top(c.operand.type) - (q.zeros.empty() ? 0 : type_bottom(c.operand.type));
          const bool power = c.operand.scale->type == DType::kE8m0;  // kCeil rounds it up
          const double rounding = power ? 0 : std::exp2(-info(c.operand.scale->type).mantissa_bits - 1);
          const double slack = range * rounding + (q.zeros.empty() ? 0 : 0.5);
          saturated += !(error <= 0.5 * ulp * (1 + 1e-5)) ? 1 : 0;
          if (!(error <= (0.5 * ulp + slack) * (1 + 1e-5))) {
            FAIL() << "row " << r << " k " << j << ": " << x[i] << " became " << y[i] << ", scale " << s;
          }
        }
      }
    }
    EXPECT_LT(saturated, rows * k / 20);
  }
}

TEST(Quantize, NvFp4ByHand) {
  // amax 672 = 6 * 448 / 4: the global factor is 1/4. The second block's amax 3 wants scale 2; the
  // third's 13.125 wants 8.75, which is halfway between the e4m3 values 8 and 9 ... 8.75 is 1.09375 * 8:
  // nearest is 9.
  std::vector<float> x(48, 0.0f);
  x[0] = 672;
  x[1] = -112;
  x[16] = 3;
  x[17] = 1.25f;   // 2.5 steps: a tie, to 2
  x[18] = -1.75f;  // 3.5 steps: a tie, to 4
  x[32] = 13.125f;
  x[33] = -2.25f;  // one step of 9 / 4
  const QuantizedMatrix q = must_quantize(operand(DType::kE2m1, nvfp4()), matrix(x, 1, 48));
  EXPECT_EQ(q.global, 0.25f);
  EXPECT_EQ(num::decode(DType::kE4m3, static_cast<uint32_t>(q.scales[0])), 448.0f);
  EXPECT_EQ(num::decode(DType::kE4m3, static_cast<uint32_t>(q.scales[1])), 2.0f);
  EXPECT_EQ(num::decode(DType::kE4m3, static_cast<uint32_t>(q.scales[2])), 9.0f);
  const std::vector<float> y = must_dequantize(q);
  EXPECT_EQ(y[0], 672.0f);
  EXPECT_EQ(y[1], -112.0f);
  EXPECT_EQ(y[16], 3.0f);
  EXPECT_EQ(y[17], 1.0f);
  EXPECT_EQ(y[18], -2.0f);
  EXPECT_EQ(y[32], 13.5f);
  EXPECT_EQ(y[33], -2.25f);
}

TEST(Quantize, ZeroPointsByHand) {
  // -2 to 5.5 in 15 steps of 0.5: zero point 4.
  const std::vector<float> x = {-2.0f, 5.5f, 0.0f, 0.25f, 0.75f, -0.25f, -0.75f, 3.0f};
  const QuantizedMatrix q =
      must_quantize(operand(DType::kUint4, with_zeros(DType::kF32, kAll, DType::kUint4)), matrix(x, 1, 8));
  EXPECT_EQ(num::load_code(DType::kF32, q.scales.data(), 0), 0x3F000000u);
  EXPECT_EQ(q.zeros[0], std::byte{4});
  const uint32_t codes[] = {0, 15, 4, 4, 6, 4, 2, 10};  // 0.5 steps round to 0, 1.5 to 2
  for (int64_t k = 0; k < 8; ++k) {
    EXPECT_EQ(num::load_code(DType::kUint4, q.codes.data(), k), codes[k]) << k;
  }
  EXPECT_EQ(q.codes[0], std::byte{0xF0});  // even k in the low nibble

  // The same range in int4: zero point -4, in the low nibble of its byte.
  const QuantizedMatrix s =
      must_quantize(operand(DType::kInt4, with_zeros(DType::kF32, kAll, DType::kInt4)), matrix(x, 1, 8));
  EXPECT_EQ(s.zeros[0], std::byte{0x0C});
  EXPECT_EQ(must_dequantize(s), must_dequantize(q));

  // In int8, 255 steps; a zero point in int8 as well.
  const std::vector<float> wide = {-55.0f, 200.0f, 0.0f, 1.0f};
  const QuantizedMatrix w =
      must_quantize(operand(DType::kInt8, with_zeros(DType::kF32, kAll, DType::kInt8)), matrix(wide, 1, 4));
  EXPECT_EQ(w.zeros[0], std::byte{0xB7});  // -128 + 55 = -73
  EXPECT_EQ(must_dequantize(w), wide);
}

TEST(Quantize, SymmetricIntegersNeverUseTheLowestCode) {
  for (DType type : {DType::kInt8, DType::kInt4}) {
    for (DType scale : {DType::kF32, DType::kF16, DType::kBf16}) {
      const std::vector<float> x = normal_matrix(64, 256, 9);
      const QuantizedMatrix q = must_quantize(operand(type, blocks(scale, 1, 32)), matrix(x, 64, 256));
      for (int64_t i = 0; i < 64 * 256; ++i) {
        ASSERT_NE(num::decode_double(type, num::load_code(type, q.codes.data(), i)), -type_top(type) - 1);
      }
    }
  }
}

// e8m0 scales, OCP MX v1.0 6.3 (floor), AMD Quark and AITER (even, ceil): thresholds by hand.
TEST(MxScale, ThreeRoundings) {
  const float after = 1 + 0x1p-23f;
  const float before = 1 - 0x1p-24f;
  const struct {
    DType type;
    float amax;
    int floor, even, ceil;  // exponents of the scale
  } rows[] = {
      {DType::kE2m1, 4.0f, 0, 0, 0},
      {DType::kE2m1, 6.0f, 0, 0, 0},
      {DType::kE2m1, 6.0f * after, 0, 0, 1},
      {DType::kE2m1, 7.0f * before, 0, 0, 1},
      {DType::kE2m1, 7.0f, 0, 1, 1},
      {DType::kE2m1, 8.0f * before, 0, 1, 1},
      {DType::kE2m1, 8.0f, 1, 1, 1},
      {DType::kE2m1, 1.5f, -2, -2, -2},
      {DType::kE2m1, 1.75f, -2, -1, -1},
      {DType::kE4m3, 256.0f, 0, 0, 0},
      {DType::kE4m3, 448.0f, 0, 0, 0},
      {DType::kE4m3, 448.0f * after, 0, 0, 1},
      {DType::kE4m3, 496.0f * before, 0, 0, 1},
      {DType::kE4m3, 496.0f, 0, 1, 1},
      {DType::kE5m2, 57344.0f, 0, 0, 0},
      {DType::kE5m2, 57344.0f * after, 0, 0, 1},
      {DType::kE5m2, 61440.0f, 0, 1, 1},
      {DType::kE2m1, 6e-38f, -126, -126, -126},  // 1.28 * 2^-124
      {DType::kE4m3, 6e-38f, -127, -127, -127},  // wants 2^-132
      {DType::kE2m1, 0x1p-149f, -127, -127, -127},
      {DType::kE2m1, 0x1.fffffep127f, 125, 126, 126},
      {DType::kInt8, 127.0f, 0, 0, 0},
      {DType::kInt8, 127.5f, 0, 1, 1},
      {DType::kInt4, 7.0f, 0, 0, 0},
      {DType::kInt4, 7.5f, 0, 1, 1},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(num::name(row.type)) + " " + std::to_string(row.amax));
    EXPECT_EQ(static_cast<int>(mx_scale(row.amax, row.type, ScaleRounding::kFloor)) - 127, row.floor);
    EXPECT_EQ(static_cast<int>(mx_scale(row.amax, row.type, ScaleRounding::kEven)) - 127, row.even);
    EXPECT_EQ(static_cast<int>(mx_scale(row.amax, row.type, ScaleRounding::kCeil)) - 127, row.ceil);
  }
  EXPECT_EQ(name(ScaleRounding::kFloor), "floor");
  EXPECT_EQ(name(ScaleRounding::kEven), "even");
  EXPECT_EQ(name(ScaleRounding::kCeil), "ceil");
}

TEST(MxScale, CeilNeverSaturatesAndFloorDoes) {
  const std::vector<float> x = normal_matrix(64, 256, 11);
  for (DType type : {DType::kE2m1, DType::kE4m3, DType::kE5m2}) {
    int saturated[3] = {};
    for (ScaleRounding rounding : {ScaleRounding::kFloor, ScaleRounding::kEven, ScaleRounding::kCeil}) {
      const QuantizedMatrix q =
          must_quantize(operand(type, blocks(DType::kE8m0, 1, 32)), matrix(x, 64, 256), rounding);
      for (const Block& b : blocks_of(q)) {
        for (int64_t j = b.k0; j < b.k1; ++j) {
          const double steps = std::fabs(static_cast<double>(x[static_cast<size_t>(b.r0 * 256 + j)])) /
                               static_cast<double>(scale_of(q, b));
          saturated[static_cast<int>(rounding)] += steps > type_top(type) ? 1 : 0;
        }
      }
    }
    EXPECT_GT(saturated[0], saturated[1]);
    EXPECT_GE(saturated[1], saturated[2]);
    EXPECT_EQ(saturated[2], 0);
  }
}

// Multiplying by 2^n moves e8m0 scales by n and no code.
TEST(Quantize, PowersOfTwoMoveOnlyTheScale) {
  const std::vector<float> x = normal_matrix(9, 96, 12);
  std::vector<float> scaled = x;
  for (float& value : scaled) {
    value *= 0x1p20f;
  }
  for (ScaleRounding rounding : {ScaleRounding::kFloor, ScaleRounding::kEven, ScaleRounding::kCeil}) {
    for (DType type : {DType::kE2m1, DType::kE4m3, DType::kE5m2}) {
      const OperandSpec spec = operand(type, blocks(DType::kE8m0, 1, 32));
      const QuantizedMatrix a = must_quantize(spec, matrix(x, 9, 96), rounding);
      const QuantizedMatrix b = must_quantize(spec, matrix(scaled, 9, 96), rounding);
      EXPECT_EQ(a.codes, b.codes);
      for (size_t i = 0; i < a.scales.size(); ++i) {
        EXPECT_EQ(static_cast<int>(a.scales[i]) + 20, static_cast<int>(b.scales[i]));
      }
    }
  }
}

// What a quantiser made is a fixed point: quantised again, it keeps its value (block maxima are
// representable).
TEST(Quantize, DequantisedValuesStay) {
  const std::vector<float> x = normal_matrix(33, 320, 13);
  for (DType type : {DType::kE2m1, DType::kE4m3, DType::kE5m2}) {
    const OperandSpec spec = operand(type, blocks(DType::kE8m0, 1, 32));
    const std::vector<float> once = must_dequantize(must_quantize(spec, matrix(x, 33, 320)));
    EXPECT_EQ(must_dequantize(must_quantize(spec, matrix(once, 33, 320))), once) << num::name(type);
    EXPECT_NE(once, x);
  }
}

}  // namespace
}  // namespace scalegemm::quant
