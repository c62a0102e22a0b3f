#include "num/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "num/format.h"

namespace scalegemm::num {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr uint32_t low_bits(int bits) {
  return bits == 32 ? 0xFFFF'FFFFu : (1u << bits) - 1;
}

constexpr double decode_integer(const DTypeInfo& t, uint32_t code) {
  const int unused = 32 - t.bits;
  return t.is_signed ? static_cast<double>(static_cast<int32_t>(code << unused) >> unused)
                     : static_cast<double>(code & low_bits(t.bits));
}

constexpr double decode_any(DType type, uint32_t code) {
  const DTypeInfo& t = info(type);
  if (!t.is_float) {
    return decode_integer(t, code);
  }
  if (type == DType::kE8m0) {
    const int exponent = static_cast<int>(code & 0xFF);
    return exponent == 255 ? kNan : power_of_two(exponent - t.bias);
  }
  const FloatFormat f = float_format(type);
  const uint32_t magnitude = code & low_bits(t.bits - 1);
  const bool negative = (code >> (t.bits - 1) & 1u) != 0;
  const double sign = negative ? -1.0 : 1.0;
  if (!f.signed_zero && negative && magnitude == 0) {
    return kNan;
  }
  if (magnitude > f.max_code) {
    const double special = f.has_infinity && magnitude == f.overflow_code ? kInfinity : kNan;
    return negative ? -special : special;
  }
  const uint32_t exponent = magnitude >> f.mantissa_bits;
  const uint32_t mantissa = magnitude & low_bits(f.mantissa_bits);
  const uint32_t significand = exponent == 0 ? mantissa : mantissa | 1u << f.mantissa_bits;
  const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) - f.bias - f.mantissa_bits;
  return sign * static_cast<double>(significand) * power_of_two(scale);
}

uint32_t encode_integer(const DTypeInfo& t, double value) {
  const double top = static_cast<double>(low_bits(t.is_signed ? t.bits - 1 : t.bits));
  const double bottom = t.is_signed ? -top - 1 : 0;
  if (std::isnan(value)) {
    return 0;
  }
  const double rounded = std::nearbyint(std::clamp(value, bottom, top));
  return static_cast<uint32_t>(static_cast<int64_t>(rounded)) & low_bits(t.bits);
}

uint32_t encode_power(double value, Overflow overflow) {
  if (std::isnan(value) || value < 0 || (value == 0 && overflow == Overflow::kIeee)) {
    return 255;
  }
  const uint32_t top = overflow == Overflow::kIeee ? 255 : 254;
  if (value == 0) {
    return 0;
  }
  if (std::isinf(value)) {
    return top;
  }
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int code = exponent - 1 + 127 + (fraction >= 0.75 ? 1 : 0);
  return code < 0 ? 0u : std::min(static_cast<uint32_t>(code), top);
}

template <DType type>
uint32_t encode_float(float value, Overflow overflow) {
  constexpr FloatFormat kFormat = float_format(type);
  return round_to_format<kFormat>(std::bit_cast<uint32_t>(value),
                                  overflow == Overflow::kIeee ? kFormat.overflow_code : kFormat.max_code);
}

}  // namespace

double decode_double(DType type, uint32_t code) {
  return decode_any(type, code);
}

float decode(DType type, uint32_t code) {
  return type == DType::kF32 ? std::bit_cast<float>(code) : static_cast<float>(decode_any(type, code));
}

uint32_t encode(DType type, float value, Overflow overflow) {
  switch (type) {
    case DType::kF16:
      return encode_float<DType::kF16>(value, overflow);
    case DType::kBf16:
      return encode_float<DType::kBf16>(value, overflow);
    case DType::kE4m3:
      return encode_float<DType::kE4m3>(value, overflow);
    case DType::kE4m3Fnuz:
      return encode_float<DType::kE4m3Fnuz>(value, overflow);
    case DType::kE5m2:
      return encode_float<DType::kE5m2>(value, overflow);
    case DType::kE5m2Fnuz:
      return encode_float<DType::kE5m2Fnuz>(value, overflow);
    case DType::kE2m1:
      return encode_float<DType::kE2m1>(value, overflow);
    case DType::kF32: {
      const bool saturate = overflow == Overflow::kSaturate && std::isinf(value);
      return std::bit_cast<uint32_t>(saturate ? std::copysign(info(type).max_finite, value) : value);
    }
    case DType::kE8m0:
    case DType::kInt8:
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt32:
      break;
  }
  return encode(type, static_cast<double>(value), overflow);  // exact: one rounding in all
}

uint32_t encode(DType type, double value, Overflow overflow) {
  const DTypeInfo& t = info(type);
  if (!t.is_float) {
    return encode_integer(t, value);
  }
  if (type == DType::kE8m0) {
    return encode_power(value, overflow);
  }
  const FloatFormat f = float_format(type);
  const uint32_t sign = std::signbit(value) ? 1u << (t.bits - 1) : 0u;
  if (std::isnan(value)) {
    return f.nan_code | (f.has_nan ? sign : 0u);
  }
  const double magnitude = std::fabs(value);
  uint32_t code = f.max_code + 1;
  if (magnitude < 2.0 * static_cast<double>(t.max_finite)) {
    // In units of the last place of the value's binade (or of the subnormals), rounding is to an integer; an
    // integer of 2^(mantissa_bits + 1) carries into the exponent by itself.
    const int smallest = 1 - f.bias;
    const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
    const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
    code = (static_cast<uint32_t>(exponent - smallest) << f.mantissa_bits) + static_cast<uint32_t>(units);
  }
  if (code > f.max_code) {
    code = overflow == Overflow::kIeee ? f.overflow_code : f.max_code;
  }
  return code | (f.signed_zero || code != 0 ? sign : 0u);
}

uint32_t encode_e8m0(float value, PowerRounding rounding) {
  if (std::isnan(value) || std::isinf(value) || value < 0) {
    return 255;
  }
  if (value == 0) {
    return 0;
  }
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(value), &exponent);  // in [0.5, 1)
  const bool up = (rounding == PowerRounding::kNearest && fraction >= 0.75) ||
                  (rounding == PowerRounding::kCeil && fraction > 0.5);
  return static_cast<uint32_t>(std::clamp(exponent - 1 + 127 + (up ? 1 : 0), 0, 254));
}

Kind classify(DType type, uint32_t code) {
  const DTypeInfo& t = info(type);
  const double value = decode_any(type, code);
  if (std::isnan(value)) {
    return Kind::kNan;
  }
  if (std::isinf(value)) {
    return Kind::kInfinite;
  }
  if (value == 0) {
    return Kind::kZero;
  }
  const bool floating = t.is_float && type != DType::kE8m0;
  return floating && std::fabs(value) < power_of_two(1 - t.bias) ? Kind::kSubnormal : Kind::kNormal;
}

uint32_t max_code(DType type) {
  const DTypeInfo& t = info(type);
  if (type == DType::kE8m0) {
    return 254;
  }
  return t.is_float ? float_format(type).max_code : low_bits(t.is_signed ? t.bits - 1 : t.bits);
}

}  // namespace scalegemm::num
