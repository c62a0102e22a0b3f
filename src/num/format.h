// How the codes of a type are laid out, derived from its row of the type table. For the converters of this
// room.
#pragma once

#include <bit>
#include <cstdint>

#include "num/dtype.h"

namespace scalegemm::num {

// A sign-exponent-mantissa format. All codes are magnitudes: without the sign bit, except that the fnuz NaN
// is the code of negative zero.
struct FloatFormat {
  int bits;
  int mantissa_bits;
  int bias;
  uint32_t max_code;  // of the largest finite magnitude
  uint32_t nan_code;
  uint32_t overflow_code;  // what kIeee makes of a value past max_finite
  bool has_infinity;
  bool has_nan;
  bool signed_zero;

  bool operator==(const FloatFormat&) const = default;
};

// The format of a floating-point type other than e8m0.
constexpr FloatFormat float_format(DType type) {
  const DTypeInfo& t = info(type);
  const uint32_t all_ones = (1u << (t.exponent_bits + t.mantissa_bits)) - 1;
  const uint32_t infinity = all_ones & ~((1u << t.mantissa_bits) - 1);
  const bool fnuz = type == DType::kE4m3Fnuz || type == DType::kE5m2Fnuz;
  FloatFormat f{.bits = t.bits,
                .mantissa_bits = t.mantissa_bits,
                .bias = t.bias,
                .max_code = all_ones,
                .nan_code = 0,
                .overflow_code = all_ones,
                .has_infinity = t.has_infinity,
                .has_nan = t.has_nan,
                .signed_zero = !fnuz};
  if (t.has_infinity) {
    f.max_code = infinity - 1;
    f.nan_code = infinity | 1u << (t.mantissa_bits - 1);  // quiet
    f.overflow_code = infinity;
  } else if (fnuz) {
    f.nan_code = f.overflow_code = 1u << (t.bits - 1);
  } else if (t.has_nan) {  // e4m3: one NaN a sign, all ones
    f.max_code = all_ones - 1;
    f.nan_code = f.overflow_code = all_ones;
  }
  return f;
}

// 2^exponent for exponents of normal doubles.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

constexpr uint32_t kF32Infinity = 0x7F80'0000;
constexpr uint32_t kF32Magnitude = 0x7FFF'FFFF;

// `a` where the mask is all ones, `b` where it is 0. Masks come from comparisons of values below 2^31 as
// signed integers, which SSE2 has. Spelled out, because a conditional expression around an f32 operation
// stays a branch in compilers that honour floating-point traps, and loops with branches do not become vector
// code.
constexpr uint32_t select(uint32_t mask, uint32_t a, uint32_t b) {
  return b ^ ((a ^ b) & mask);
}

constexpr uint32_t mask_less(uint32_t a, uint32_t b) {
  return 0u - static_cast<uint32_t>(static_cast<int32_t>(a) < static_cast<int32_t>(b));
}

// Rounds an f32 (as bits) to the format F, ties to even; magnitudes past F.max_code become `overflow`.
//
// Normal results: adding half a unit less one plus the lowest kept bit carries into the kept bits exactly
// when rounding goes up. Subnormal results: adding 2^(23 + exponent of the subnormal step) leaves a sum whose
// unit is that step, so the f32 adder itself does the rounding, and the low bits of the sum are the code.
template <FloatFormat F>
constexpr uint32_t round_to_format(uint32_t bits, uint32_t overflow) {
  constexpr int kShift = 23 - F.mantissa_bits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F.bias) << 23;
  constexpr uint32_t kSmallestNormal = kRebias + (1u << 23);
  constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - F.bias + kShift) << 23;
  const uint32_t magnitude = bits & kF32Magnitude;
  const uint32_t half = (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
  const uint32_t normal = (magnitude - kRebias + half) >> kShift;
  const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic);
  const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - kMagic;
  const uint32_t nan = mask_less(kF32Infinity, magnitude);
  uint32_t code = select(mask_less(magnitude, kSmallestNormal), subnormal, normal);
  code = select(mask_less(F.max_code, code), overflow, code);
  code = select(nan, F.nan_code, code);
  uint32_t sign = bits >> 31 << (F.bits - 1);
  if constexpr (!F.has_nan) {
    sign &= ~nan;
  }
  if constexpr (!F.signed_zero) {
    sign &= mask_less(0, code);
  }
  return code | sign;
}

}  // namespace scalegemm::num
