// Every code of every type, every rounding boundary, every special value.
#include "num/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace scalegemm::num {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Overflow kModes[] = {Overflow::kSaturate, Overflow::kIeee};

constexpr DType kSmallFloats[] = {DType::kF16,  DType::kBf16,     DType::kE4m3, DType::kE4m3Fnuz,
                                  DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1};
constexpr DType kSmallTypes[] = {DType::kF16,  DType::kBf16,     DType::kE4m3, DType::kE4m3Fnuz,
                                 DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1, DType::kE8m0,
                                 DType::kInt8, DType::kInt4,     DType::kUint4};

uint32_t code_count(DType type) {
  return 1u << info(type).bits;
}

uint32_t sign_bit(DType type) {
  return 1u << (info(type).bits - 1);
}

class EveryType : public testing::TestWithParam<DType> {};
class EveryFloat : public testing::TestWithParam<DType> {};

std::string type_name(const testing::TestParamInfo<DType>& param) {
  return std::string(name(param.param));
}

INSTANTIATE_TEST_SUITE_P(Num, EveryType, testing::ValuesIn(kSmallTypes), type_name);
INSTANTIATE_TEST_SUITE_P(Num, EveryFloat, testing::ValuesIn(kSmallFloats), type_name);

// Values written out by hand from the format tables of OFP8 1.0, MX 1.0 and the CDNA3 ISA.
TEST(Decode, KnownValues) {
  const struct {
    DType type;
    uint32_t code;
    double value;
  } rows[] = {
      {DType::kE4m3, 0x00, 0.0},
      {DType::kE4m3, 0x01, 0x1p-9},
      {DType::kE4m3, 0x07, 7 * 0x1p-9},
      {DType::kE4m3, 0x08, 0x1p-6},
      {DType::kE4m3, 0x38, 1.0},
      {DType::kE4m3, 0x7E, 448.0},
      {DType::kE4m3, 0xFE, -448.0},
      {DType::kE4m3Fnuz, 0x01, 0x1p-10},
      {DType::kE4m3Fnuz, 0x08, 0x1p-7},
      {DType::kE4m3Fnuz, 0x40, 1.0},
      {DType::kE4m3Fnuz, 0x7F, 240.0},
      {DType::kE5m2, 0x01, 0x1p-16},
      {DType::kE5m2, 0x04, 0x1p-14},
      {DType::kE5m2, 0x3C, 1.0},
      {DType::kE5m2, 0x7B, 57344.0},
      {DType::kE5m2, 0x7C, kInf},
      {DType::kE5m2, 0xFC, -kInf},
      {DType::kE5m2Fnuz, 0x01, 0x1p-17},
      {DType::kE5m2Fnuz, 0x40, 1.0},
      {DType::kE5m2Fnuz, 0x7F, 57344.0},
      {DType::kE2m1, 1, 0.5},
      {DType::kE2m1, 2, 1.0},
      {DType::kE2m1, 3, 1.5},
      {DType::kE2m1, 4, 2.0},
      {DType::kE2m1, 5, 3.0},
      {DType::kE2m1, 6, 4.0},
      {DType::kE2m1, 7, 6.0},
      {DType::kE2m1, 15, -6.0},
      {DType::kE8m0, 0, 0x1p-127},
      {DType::kE8m0, 127, 1.0},
      {DType::kE8m0, 254, 0x1p127},
      {DType::kBf16, 0x3F80, 1.0},
      {DType::kBf16, 0x0001, 0x1p-133},
      {DType::kBf16, 0x7F7F, 0x1.FEp127},
      {DType::kF16, 0x3C00, 1.0},
      {DType::kF16, 0x0001, 0x1p-24},
      {DType::kF16, 0x7BFF, 65504.0},
      {DType::kF16, 0xFC00, -kInf},
      {DType::kInt8, 0x80, -128.0},
      {DType::kInt8, 0xFF, -1.0},
      {DType::kInt4, 0x8, -8.0},
      {DType::kInt4, 0x7, 7.0},
      {DType::kUint4, 0xF, 15.0},
      {DType::kInt32, 0x80000000, -2147483648.0},
      {DType::kF32, 0x00000001, 0x1p-149},
      {DType::kF32, 0x7F7FFFFF, 0x1.fffffep127},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(decode_double(row.type, row.code), row.value) << name(row.type) << " " << row.code;
    EXPECT_EQ(static_cast<double>(decode(row.type, row.code)), row.value)
        << name(row.type) << " " << row.code;
  }
  EXPECT_TRUE(std::signbit(decode(DType::kE2m1, 8)));
  EXPECT_EQ(decode(DType::kInt32, 16777217), 16777216.0f);
}

TEST(Decode, TypeTableAgrees) {
  for (DType type : kSmallFloats) {
    EXPECT_EQ(decode(type, max_code(type)), info(type).max_finite) << name(type);
    EXPECT_EQ(decode(type, 1), info(type).min_positive) << name(type);
  }
  EXPECT_EQ(decode(DType::kE8m0, max_code(DType::kE8m0)), info(DType::kE8m0).max_finite);
  EXPECT_EQ(decode(DType::kE8m0, 0), info(DType::kE8m0).min_positive);
  for (DType type : {DType::kInt8, DType::kInt4, DType::kUint4}) {
    EXPECT_EQ(decode(type, max_code(type)), info(type).max_finite) << name(type);
  }
}

TEST_P(EveryFloat, PositiveCodesIncrease) {
  const DType type = GetParam();
  for (uint32_t code = 0; code < max_code(type); ++code) {
    ASSERT_LT(decode_double(type, code), decode_double(type, code + 1)) << code;
  }
}

TEST(Classify, CountsOfKinds) {
  const struct {
    DType type;
    std::map<Kind, int> counts;
  } rows[] = {
      {DType::kE4m3, {{Kind::kZero, 2}, {Kind::kSubnormal, 14}, {Kind::kNormal, 238}, {Kind::kNan, 2}}},
      {DType::kE4m3Fnuz, {{Kind::kZero, 1}, {Kind::kSubnormal, 14}, {Kind::kNormal, 240}, {Kind::kNan, 1}}},
      {DType::kE5m2,
       {{Kind::kZero, 2},
        {Kind::kSubnormal, 6},
        {Kind::kNormal, 240},
        {Kind::kInfinite, 2},
        {Kind::kNan, 6}}},
      {DType::kE5m2Fnuz, {{Kind::kZero, 1}, {Kind::kSubnormal, 6}, {Kind::kNormal, 248}, {Kind::kNan, 1}}},
      {DType::kE2m1, {{Kind::kZero, 2}, {Kind::kSubnormal, 2}, {Kind::kNormal, 12}}},
      {DType::kE8m0, {{Kind::kNormal, 255}, {Kind::kNan, 1}}},
      {DType::kInt8, {{Kind::kZero, 1}, {Kind::kNormal, 255}}},
      {DType::kInt4, {{Kind::kZero, 1}, {Kind::kNormal, 15}}},
      {DType::kUint4, {{Kind::kZero, 1}, {Kind::kNormal, 15}}},
      {DType::kF16,
       {{Kind::kZero, 2},
        {Kind::kSubnormal, 2046},
        {Kind::kNormal, 61440},
        {Kind::kInfinite, 2},
        {Kind::kNan, 2046}}},
      {DType::kBf16,
       {{Kind::kZero, 2},
        {Kind::kSubnormal, 254},
        {Kind::kNormal, 65024},
        {Kind::kInfinite, 2},
        {Kind::kNan, 254}}},
  };
  for (const auto& row : rows) {
    std::map<Kind, int> counts;
    for (uint32_t code = 0; code < code_count(row.type); ++code) {
      ++counts[classify(row.type, code)];
    }
    EXPECT_EQ(counts, row.counts) << name(row.type);
  }
}

TEST_P(EveryType, EncodeInvertsDecode) {
  const DType type = GetParam();
  for (uint32_t code = 0; code < code_count(type); ++code) {
    const double value = decode_double(type, code);
    EXPECT_EQ(std::isnan(value), is_nan(type, code));
    for (Overflow mode : kModes) {
      const uint32_t from_float = encode(type, decode(type, code), mode);
      ASSERT_EQ(from_float, encode(type, value, mode)) << code;
      if (std::isnan(value)) {
        EXPECT_TRUE(is_nan(type, from_float)) << code;
        EXPECT_EQ(std::signbit(decode(type, from_float)), std::signbit(value)) << code;
      } else if (std::isinf(value) && mode == Overflow::kSaturate) {
        EXPECT_EQ(from_float, max_code(type) | (code & sign_bit(type)));
      } else {
        EXPECT_EQ(from_float, code);
      }
    }
  }
}

// Between neighbours c and c + 1 lies one midpoint: exactly there the even code wins, one step of f32 (or of
// double) beside it the nearer one, in both signs and both modes. This walks all subnormals too.
TEST_P(EveryFloat, EveryRoundingBoundary) {
  const DType type = GetParam();
  for (uint32_t code = 0; code < max_code(type); ++code) {
    const double midpoint = (decode_double(type, code) + decode_double(type, code + 1)) / 2;
    const uint32_t even = code + code % 2;
    const float mid = static_cast<float>(midpoint);
    ASSERT_EQ(static_cast<double>(mid), midpoint);
    for (Overflow mode : kModes) {
      ASSERT_EQ(encode(type, mid, mode), even) << code;
      ASSERT_EQ(encode(type, midpoint, mode), even) << code;
      ASSERT_EQ(encode(type, std::nextafter(mid, 0.0f), mode), code);
      ASSERT_EQ(encode(type, std::nextafter(mid, kInf), mode), code + 1);
      ASSERT_EQ(encode(type, std::nextafter(midpoint, 0.0), mode), code);
      ASSERT_EQ(encode(type, std::nextafter(midpoint, HUGE_VAL), mode), code + 1);
      const auto negative = [&](uint32_t c) {
        const bool unsigned_zero = c == 0 && (type == DType::kE4m3Fnuz || type == DType::kE5m2Fnuz);
        return unsigned_zero ? 0u : c | sign_bit(type);
      };
      ASSERT_EQ(encode(type, -mid, mode), negative(even)) << code;
      ASSERT_EQ(encode(type, -std::nextafter(mid, 0.0f), mode), negative(code));
      ASSERT_EQ(encode(type, -std::nextafter(mid, kInf), mode), negative(code + 1));
      ASSERT_EQ(encode(type, -midpoint, mode), negative(even));
    }
  }
}

// The first value that is lost to overflow lies half a step past max_finite; whether the tie itself is lost
// depends on the parity of the largest code.
TEST(Encode, OverflowThreshold) {
  const struct {
    DType type;
    float threshold;
    bool tie_overflows;
    uint32_t past;  // code of a positive overflow in kIeee mode
  } rows[] = {
      {DType::kE4m3, 464.0f, false, 0x7F},       {DType::kE4m3Fnuz, 248.0f, true, 0x80},
      {DType::kE5m2, 61440.0f, true, 0x7C},      {DType::kE5m2Fnuz, 61440.0f, true, 0x80},
      {DType::kE2m1, 7.0f, true, 0x7},           {DType::kF16, 65520.0f, true, 0x7C00},
      {DType::kBf16, 0x1.FFp127f, true, 0x7F80},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(name(row.type));
    const uint32_t top = max_code(row.type);
    EXPECT_EQ(encode(row.type, std::nextafter(row.threshold, 0.0f), Overflow::kIeee), top);
    EXPECT_EQ(encode(row.type, row.threshold, Overflow::kIeee), row.tie_overflows ? row.past : top);
    EXPECT_EQ(encode(row.type, std::nextafter(row.threshold, kInf), Overflow::kIeee), row.past);
    for (float large : {row.threshold, std::nextafter(row.threshold, kInf), 0x1.fffffep127f, kInf}) {
      EXPECT_EQ(encode(row.type, large, Overflow::kSaturate), top);
      EXPECT_EQ(encode(row.type, static_cast<double>(large), Overflow::kSaturate), top);
      EXPECT_EQ(encode(row.type, -large, Overflow::kSaturate), top | sign_bit(row.type));
      EXPECT_EQ(encode(row.type, static_cast<double>(large), Overflow::kIeee),
                encode(row.type, large, Overflow::kIeee));
    }
    EXPECT_EQ(encode(row.type, 1e300, Overflow::kIeee), row.past);
    EXPECT_EQ(encode(row.type, 1e300, Overflow::kSaturate), top);
    EXPECT_EQ(encode(row.type, 1e-300, Overflow::kIeee), 0u);
  }
  EXPECT_EQ(encode(DType::kF32, 1e300, Overflow::kIeee), 0x7F800000u);
  EXPECT_EQ(encode(DType::kF32, -1e300, Overflow::kSaturate), 0xFF7FFFFFu);
  EXPECT_EQ(encode(DType::kF32, kInf, Overflow::kSaturate), 0x7F7FFFFFu);
  EXPECT_EQ(encode(DType::kF32, 1.0 + 0x1p-24, Overflow::kIeee), 0x3F800000u);
  EXPECT_EQ(encode(DType::kF32, 1.0 + 0x1.8p-23, Overflow::kIeee), 0x3F800002u);
}

TEST(Encode, NanWithoutACodeIsZero) {
  for (DType type : {DType::kE2m1, DType::kInt8, DType::kInt4, DType::kUint4, DType::kInt32}) {
    for (Overflow mode : kModes) {
      EXPECT_EQ(encode(type, kNan, mode), 0u) << name(type);
      EXPECT_EQ(encode(type, -kNan, mode), 0u) << name(type);
      EXPECT_EQ(encode(type, static_cast<double>(-kNan), mode), 0u) << name(type);
    }
  }
}

TEST(Encode, IntegersRoundToEvenAndSaturate) {
  const struct {
    DType type;
    int low, high;
  } rows[] = {{DType::kInt8, -128, 127}, {DType::kInt4, -8, 7}, {DType::kUint4, 0, 15}};
  for (const auto& row : rows) {
    for (int quarter = -4 * 300; quarter <= 4 * 300; ++quarter) {
      const double value = quarter / 4.0;
      const double expected = std::min<double>(row.high, std::max<double>(row.low, std::nearbyint(value)));
      const uint32_t code = encode(row.type, value, Overflow::kIeee);
      ASSERT_EQ(decode_double(row.type, code), expected) << name(row.type) << " " << value;
      ASSERT_EQ(encode(row.type, static_cast<float>(value), Overflow::kSaturate), code);
    }
    EXPECT_EQ(decode_double(row.type, encode(row.type, kInf, Overflow::kIeee)), row.high);
    EXPECT_EQ(decode_double(row.type, encode(row.type, -kInf, Overflow::kIeee)), row.low);
  }
  EXPECT_EQ(encode(DType::kInt32, 3e9, Overflow::kSaturate), 0x7FFFFFFFu);
  EXPECT_EQ(encode(DType::kInt32, -3e9f, Overflow::kSaturate), 0x80000000u);
  EXPECT_EQ(encode(DType::kInt32, -2.5, Overflow::kSaturate), 0xFFFFFFFEu);
}

// The f32 path (integer arithmetic) and the double path (ldexp and nearbyint) are separate programs.
TEST(Encode, FloatAndDoubleAgreeOnRandomBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 500'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    for (DType type : kSmallTypes) {
      for (Overflow mode : kModes) {
        ASSERT_EQ(encode(type, value, mode), encode(type, static_cast<double>(value), mode))
            << name(type) << " " << value;
      }
    }
  }
}

// Rounding straight from double: a value just above a midpoint that f32 would round onto the midpoint.
TEST(Encode, DoubleIsRoundedOnce) {
  EXPECT_EQ(decode(DType::kE4m3, encode(DType::kE4m3, 1.0625 + 0x1p-40, Overflow::kIeee)), 1.125f);
  EXPECT_EQ(decode(DType::kE2m1, encode(DType::kE2m1, 2.5 + 0x1p-40, Overflow::kIeee)), 3.0f);
  EXPECT_EQ(decode(DType::kBf16, encode(DType::kBf16, 1.0 + 0x1p-8 + 0x1p-50, Overflow::kIeee)),
            1.0f + 0x1p-7f);
}

TEST(EncodeE8m0, ThreeRoundings) {
  using enum PowerRounding;
  const struct {
    float value;
    uint32_t floor, nearest, ceil;
  } rows[] = {
      {1.0f, 127, 127, 127},
      {std::nextafter(1.0f, 2.0f), 127, 127, 128},
      {std::nextafter(1.5f, 0.0f), 127, 127, 128},
      {1.5f, 127, 128, 128},
      {std::nextafter(2.0f, 0.0f), 127, 128, 128},
      {6e-38f, 3, 3, 4},  // 1.28 * 2^-124
      {0x1p-126f, 1, 1, 1},
      {0x1.8p-127f, 0, 1, 1},
      {0x1p-127f, 0, 0, 0},
      {0x1p-128f, 0, 0, 0},
      {0x1p-149f, 0, 0, 0},
      {0x1.8p127f, 254, 254, 254},
      {0x1.fffffep127f, 254, 254, 254},
      {0.0f, 0, 0, 0},
      {-1.0f, 255, 255, 255},
      {kInf, 255, 255, 255},
      {kNan, 255, 255, 255},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(encode_e8m0(row.value, kFloor), row.floor) << row.value;
    EXPECT_EQ(encode_e8m0(row.value, kNearest), row.nearest) << row.value;
    EXPECT_EQ(encode_e8m0(row.value, kCeil), row.ceil) << row.value;
  }
  for (int exponent = -126; exponent <= 127; ++exponent) {
    for (PowerRounding rounding : {kFloor, kNearest, kCeil}) {
      ASSERT_EQ(encode_e8m0(std::ldexp(1.0f, exponent), rounding), static_cast<uint32_t>(exponent + 127));
    }
  }
}

TEST(EncodeE8m0, GeneralEncodeHasModes) {
  EXPECT_EQ(encode(DType::kE8m0, 0.0f, Overflow::kSaturate), 0u);
  EXPECT_EQ(encode(DType::kE8m0, 0.0f, Overflow::kIeee), 255u);
  EXPECT_EQ(encode(DType::kE8m0, -2.0f, Overflow::kSaturate), 255u);
  EXPECT_EQ(encode(DType::kE8m0, kInf, Overflow::kSaturate), 254u);
  EXPECT_EQ(encode(DType::kE8m0, kInf, Overflow::kIeee), 255u);
  EXPECT_EQ(encode(DType::kE8m0, 0x1.8p127f, Overflow::kSaturate), 254u);
  EXPECT_EQ(encode(DType::kE8m0, 0x1.8p127f, Overflow::kIeee), 255u);
  EXPECT_EQ(encode(DType::kE8m0, 1e-300, Overflow::kIeee), 0u);
}

}  // namespace
}  // namespace scalegemm::num
