// Blocks that are not ordinary data, strided views, and what bad arguments get.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "num/bulk.h"
#include "num/convert.h"
#include "quant/quantize.h"
#include "quant/support.h"

namespace scalegemm::quant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

float stored_scale(const QuantizedMatrix& q, int64_t index) {
  return num::decode(q.operand.scale->type, num::load_code(q.operand.scale->type, q.scales.data(), index));
}

// Grid index of element (r, k).
int64_t block_index(const QuantizedMatrix& q, int64_t r, int64_t k) {
  const ScaleSpec& s = *q.operand.scale;
  return (s.block_rows == kAll ? 0 : r / s.block_rows) * q.grid.cols +
         (s.block_k == kAll ? 0 : k / s.block_k);
}

TEST(Edge, ZeroBlocksHaveScaleOne) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text);
    std::vector<float> x(4 * 288, 0.0f);
    x[1] = -0.0f;
    QuantizedMatrix q = must_quantize(c.operand, matrix(x, 4, 288));
    EXPECT_EQ(q.global, 1.0f);
    for (int64_t i = 0; i < q.grid.rows * q.grid.cols; ++i) {
      EXPECT_EQ(stored_scale(q, i), 1.0f);
    }
    for (float y : must_dequantize(q)) {
      EXPECT_EQ(y, 0.0f);
    }
    // A zero block beside ordinary ones.
    x = normal_matrix(4, 288, 1);
    std::fill(x.begin(), x.begin() + 288, 0.0f);
    q = must_quantize(c.operand, matrix(x, 4, 288));
    const std::vector<float> y = must_dequantize(q);
    for (size_t k = 0; k < 288; ++k) {
      EXPECT_EQ(y[k], 0.0f);
    }
    if (c.operand.scale->block_rows == 1) {
      EXPECT_EQ(stored_scale(q, 0), 1.0f);
    }
  }
}

// 6e-38 is near the smallest normal f32 (1.2e-38): scales become subnormal or reach the bottom of their type,
// yet nothing becomes NaN, infinite or larger than it was by more than a step.
TEST(Edge, SubnormalAmax) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text);
    std::vector<float> x = normal_matrix(4, 288, 2);
    float amax = 0;
    for (float value : x) {
      amax = std::max(amax, std::fabs(value));
    }
    for (float& value : x) {
      value = value / amax * 6e-38f;
    }
    const QuantizedMatrix q = must_quantize(c.operand, matrix(x, 4, 288));
    const std::vector<float> y = must_dequantize(q);
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t k = 0; k < 288; ++k) {
        const size_t i = static_cast<size_t>(r * 288 + k);
        const float step = stored_scale(q, block_index(q, r, k)) * q.global;
        EXPECT_GT(step, 0.0f);
        // Half a step of e2m1 between 4 and 6, or its saturation, and half a step of rounding. Where even the
        // smallest scale is too large (f16: 2^-24), or scales are subnormal with few bits (bf16), as much as
        // the value is lost.
        const bool coarse = c.operand.scale->type == DType::kF16 || c.operand.scale->type == DType::kBf16;
        EXPECT_LE(std::fabs(y[i] - x[i]), coarse ? 6.01e-38f : 1.6e-38f + step) << x[i];
      }
    }
  }
  // f32 and e8m0 scales keep such blocks well.
  const std::vector<float> x(64, 6e-38f);
  for (DType scale : {DType::kF32, DType::kE8m0}) {
    const std::vector<float> y =
        must_dequantize(must_quantize(operand(DType::kE4m3, blocks(scale, 1, 32)), matrix(x, 1, 64)));
    EXPECT_NEAR(y[0] / 6e-38f, 1.0f, 0.07f) << num::name(scale);
  }
  const std::vector<float> nv =
      must_dequantize(must_quantize(operand(DType::kE2m1, nvfp4()), matrix(x, 1, 64)));
  EXPECT_NEAR(nv[0] / 6e-38f, 1.0f, 0.3f);
  EXPECT_EQ(must_quantize(operand(DType::kE2m1, nvfp4()), matrix(x, 1, 64)).global, 0x1p-117f);
}

TEST(Edge, TheSmallestNumberOfAll) {
  const std::vector<float> x(32, std::numeric_limits<float>::denorm_min());
  for (const Case& c : all_cases()) {
    for (float y : must_dequantize(must_quantize(c.operand, matrix(x, 1, 32)))) {
      EXPECT_TRUE(std::isfinite(y)) << c.text;
      EXPECT_GE(y, 0.0f) << c.text;
    }
  }
}

TEST(Edge, HugeOutlierStaysInItsBlock) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text);
    const std::vector<float> x = normal_matrix(4, 576, 3);
    std::vector<float> spiked = x;
    spiked[300] = 3.0e38f;
    const QuantizedMatrix plain = must_quantize(c.operand, matrix(x, 4, 576));
    const QuantizedMatrix q = must_quantize(c.operand, matrix(spiked, 4, 576));
    const std::vector<float> a = must_dequantize(plain);
    const std::vector<float> b = must_dequantize(q);
    const int64_t hit = block_index(q, 0, 300);
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t k = 0; k < 576; ++k) {
        const size_t i = static_cast<size_t>(r * 576 + k);
        EXPECT_TRUE(std::isfinite(b[i])) << i;
        if (block_index(q, r, k) != hit && !c.operand.scale->global) {
          EXPECT_EQ(a[i], b[i]) << i;
        }
      }
    }
    const bool short_range =
        c.operand.scale->type == DType::kF16;  // scales end at 65504: the outlier saturates
    if (!short_range) {
      EXPECT_NEAR(static_cast<double>(b[300]) / 3.0e38, 1.0, 0.34);  // floor of MX: 3.0e38 is 1.76 * 2^127
    } else {
      EXPECT_GT(b[300], 100.0f);
    }
  }
}

TEST(Edge, NanAndInfinityPoisonTheirBlock) {
  for (const Case& c : all_cases()) {
    for (float bad : {kNan, -kNan, kInf, -kInf}) {
      SCOPED_TRACE(c.text);
      const std::vector<float> x = normal_matrix(4, 576, 4);
      std::vector<float> spiked = x;
      spiked[576 + 400] = bad;
      const QuantizedMatrix plain = must_quantize(c.operand, matrix(x, 4, 576));
      const QuantizedMatrix q = must_quantize(c.operand, matrix(spiked, 4, 576));
      EXPECT_EQ(q.global, plain.global);
      const std::vector<float> a = must_dequantize(plain);
      const std::vector<float> b = must_dequantize(q);
      const int64_t hit = block_index(q, 1, 400);
      EXPECT_TRUE(std::isnan(stored_scale(q, hit)));
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t k = 0; k < 576; ++k) {
          const size_t i = static_cast<size_t>(r * 576 + k);
          if (block_index(q, r, k) == hit) {
            EXPECT_TRUE(std::isnan(b[i])) << i;
          } else {
            EXPECT_EQ(a[i], b[i]) << i;
          }
        }
      }
    }
  }
}

TEST(Edge, PlainCasts) {
  const std::vector<float> x = {1.0f, -1e9f, kNan, kInf, 0x1p-140f, 70000.0f, -0.0f, 2.0f};
  const auto cast = [&](DType type) {
    return must_dequantize(must_quantize(operand(type), matrix(x, 1, 8)));
  };
  const std::vector<float> f16 = cast(DType::kF16);
  EXPECT_EQ(f16[1], -kInf);
  EXPECT_TRUE(std::isnan(f16[2]));
  EXPECT_EQ(f16[4], 0.0f);
  const std::vector<float> e4m3 = cast(DType::kE4m3);
  EXPECT_EQ(e4m3[1], -448.0f);
  EXPECT_TRUE(std::isnan(e4m3[2]));
  EXPECT_EQ(e4m3[3], 448.0f);
  EXPECT_TRUE(std::signbit(e4m3[6]));
  const std::vector<float> f32 = cast(DType::kF32);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(f32[i]), std::bit_cast<uint32_t>(x[i]));
  }
  for (DType type : {DType::kE2m1, DType::kInt8, DType::kInt4, DType::kUint4}) {
    const Result<QuantizedMatrix> refused = quantize(operand(type), matrix(x, 1, 8), {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("row 0, k 2"), std::string::npos) << refused.status().message();
  }
}

// Any strides give the bytes of the contiguous matrix, and nothing beside the elements is read.
TEST(Strides, EveryViewGivesTheSameBytes) {
  const int64_t rows = 37, k = 98;
  const std::vector<float> x = normal_matrix(rows, k, 5);
  std::vector<float> transposed(static_cast<size_t>(rows * k)),
      padded(static_cast<size_t>(rows * k * 3), kNan), reversed(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < k; ++j) {
      const float value = x[static_cast<size_t>(r * k + j)];
      transposed[static_cast<size_t>(j * rows + r)] = value;
      padded[static_cast<size_t>(r * k * 3 + j * 2)] = value;
      reversed[static_cast<size_t>((rows - 1 - r) * k + (k - 1 - j))] = value;
    }
  }
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text);
    const QuantizedMatrix q = must_quantize(c.operand, matrix(x, rows, k));
    const FloatMatrix views[] = {{transposed.data(), rows, k, 1, rows},
                                 {padded.data(), rows, k, 3 * k, 2},
                                 {reversed.data() + rows * k - 1, rows, k, -k, -1}};
    for (const FloatMatrix& v : views) {
      const QuantizedMatrix other = must_quantize(c.operand, v);
      EXPECT_EQ(other.codes, q.codes);
      EXPECT_EQ(other.scales, q.scales);
      EXPECT_EQ(other.zeros, q.zeros);
      EXPECT_EQ(other.global, q.global);
    }
  }
}

TEST(Strides, OutputsMayBeMisalignedAndAreFilledExactly) {
  const std::vector<float> x = normal_matrix(5, 50, 6);
  for (const Case& c : all_cases()) {
    const QuantizedMatrix q = must_quantize(c.operand, matrix(x, 5, 50));
    const Result<OutputSizes> sizes = output_sizes(c.operand, 5, 50);
    ASSERT_TRUE(sizes.ok());
    const auto guarded = [](size_t size) { return std::vector<std::byte>(size + 2, std::byte{0xA5}); };
    std::vector<std::byte> codes = guarded(sizes->codes), scales = guarded(sizes->scales),
                           zeros = guarded(sizes->zeros);
    float global = -1;
    const auto inner = [](std::vector<std::byte>& v) { return std::span(v).subspan(1, v.size() - 2); };
    ASSERT_TRUE(
        quantize(c.operand, matrix(x, 5, 50), {}, {inner(codes), inner(scales), inner(zeros), &global}).ok());
    for (const auto& [ours, theirs] :
         {std::pair(&codes, &q.codes), {&scales, &q.scales}, {&zeros, &q.zeros}}) {
      EXPECT_TRUE(std::equal(theirs->begin(), theirs->end(), ours->begin() + 1)) << c.text;
      EXPECT_EQ(ours->front(), std::byte{0xA5});
      EXPECT_EQ(ours->back(), std::byte{0xA5});
    }
    EXPECT_EQ(global, c.operand.scale->global ? q.global : -1.0f);
  }
}

TEST(Dequantize, DoubleIsTheExactProduct) {
  const std::vector<float> x = normal_matrix(9, 130, 7);
  for (const Case& c : all_cases()) {
    const QuantizedMatrix q = must_quantize(c.operand, matrix(x, 9, 130));
    std::vector<double> y(2 * 9 * 130, -1.0);
    ASSERT_TRUE(dequantize(q.operand, view(q), Destination<double>{y.data(), 260, 2}).ok());
    const std::vector<float> z = must_dequantize(q);
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t k = 0; k < 130; ++k) {
        const int64_t block = block_index(q, r, k);
        const std::byte* row = q.codes.data() + r * num::bytes_of(q.operand.type, 130);
        double code = num::decode_double(q.operand.type, num::load_code(q.operand.type, row, k));
        if (!q.zeros.empty()) {
          code -= num::decode_double(*q.operand.scale->zero_type,
                                     static_cast<uint32_t>(q.zeros[static_cast<size_t>(block)]));
        }
        const double exact =
            code * static_cast<double>(stored_scale(q, block)) * static_cast<double>(q.global);
        const double got = y[static_cast<size_t>(r * 260 + 2 * k)];
        ASSERT_LE(std::fabs(got - exact), 0x1p-52 * std::fabs(exact)) << c.text;
        ASSERT_LE(std::fabs(static_cast<double>(z[static_cast<size_t>(r * 130 + k)]) - exact),
                  0x1.8p-23 * std::fabs(exact))
            << c.text;
        ASSERT_EQ(y[static_cast<size_t>(r * 260 + 2 * k + 1)], -1.0);
      }
    }
  }
}

void expect_refused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(Errors, NameTheArgument) {
  const std::vector<float> x = normal_matrix(4, 8, 8);
  const OperandSpec int4 = operand(DType::kInt4, blocks(DType::kF32, 1, 16));
  expect_refused(quantize(int4, matrix(x, 4, 7), {}).status(), "even K");
  expect_refused(quantize(int4, matrix(x, 0, 8), {}).status(), "N: needed a positive size");
  expect_refused(quantize(int4, {.data = nullptr, .rows = 4, .k = 8}, {}).status(), "source");
  expect_refused(quantize(int4, matrix(x, 4, 8), {static_cast<ScaleRounding>(3)}).status(), "scale_rounding");
  expect_refused(quantize(operand(DType::kE4m3, blocks(DType::kE5m2, 1, 16)), matrix(x, 4, 8), {}).status(),
                 "scale type");
  expect_refused(quantize(operand(DType::kE4m3, blocks(DType::kF32, 1, -16)), matrix(x, 4, 8), {}).status(),
                 "block_k");
  expect_refused(
      quantize(operand(DType::kE4m3, with_zeros(DType::kF32, 16, DType::kInt8)), matrix(x, 4, 8), {})
          .status(),
      "zero-point");
  expect_refused(quantize(operand(DType::kUint4, blocks(DType::kF32, 1, 16)), matrix(x, 4, 8), {}).status(),
                 "without zero points");
  std::vector<std::byte> codes(16), scales(16);
  expect_refused(quantize(int4, matrix(x, 4, 8), {}, {.codes = codes, .scales = {}}),
                 "scales: needed 16 bytes; given 0");
  expect_refused(quantize(int4, matrix(x, 4, 8), {}, {.codes = std::span(codes).first(15), .scales = scales}),
                 "codes: needed 16");
  const OperandSpec nv = operand(DType::kE2m1, nvfp4());
  expect_refused(quantize(nv, matrix(x, 4, 8), {}, {.codes = codes, .scales = std::span(scales).first(4)}),
                 "global");
  float y[32];
  const QuantizedMatrix q = must_quantize(nv, matrix(x, 4, 8));
  QuantizedView source = view(q);
  source.global = nullptr;
  expect_refused(dequantize(nv, source, Destination<float>{y, 8, 1}), "global");
  source = view(q);
  source.codes = source.codes.first(3);
  expect_refused(dequantize(nv, source, Destination<float>{y, 8, 1}), "codes: needed 16 bytes; given 3");
  expect_refused(dequantize(nv, view(q), Destination<float>{}), "destination");
}

TEST(Errors, UnsignedWithoutZeroPointsTakesPositiveData) {
  const std::vector<float> x = {0.0f, 1.0f, 7.5f, 15.0f};
  EXPECT_EQ(
      must_dequantize(must_quantize(operand(DType::kUint4, blocks(DType::kF32, 1, kAll)), matrix(x, 1, 4))),
      (std::vector<float>{0.0f, 1.0f, 8.0f, 15.0f}));
}

}  // namespace
}  // namespace scalegemm::quant
