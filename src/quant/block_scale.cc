#include "quant/block_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "num/convert.h"

namespace scalegemm::quant {
namespace {

using num::DType;
using num::info;

constexpr int32_t kMagnitude = 0x7FFF'FFFF;
constexpr int32_t kInfinityKey = 0x7F80'0000;

// Order-preserving: negative floats have their magnitude bits inverted. Its own inverse.
int32_t key_of(int32_t bits) {
  return bits ^ ((bits >> 31) & kMagnitude);
}

float number_of(int32_t key) {
  return std::bit_cast<float>(key_of(key));
}

double max_element(DType type) {
  return static_cast<double>(info(type).max_finite);
}

double min_integer(DType type) {
  return info(type).is_signed ? -max_element(type) - 1 : 0;
}

BlockScale with_scale(const ScaleRule& rule, uint32_t code) {
  return {.scale_code = code, .used = num::decode(rule.scale.type, code) * rule.global};
}

// Stored scale for elements whose extent should become `ideal` steps.
uint32_t encode_scale(const ScaleRule& rule, double ideal) {
  if (rule.scale.type == DType::kE8m0) {
    using num::PowerRounding;
    constexpr PowerRounding kRoundings[] = {PowerRounding::kFloor, PowerRounding::kNearest,
                                            PowerRounding::kCeil};
    return num::encode_e8m0(static_cast<float>(ideal), kRoundings[static_cast<int>(rule.rounding)]);
  }
  // All scale types but e8m0 have code 0 for 0 and code 1 for the smallest positive value.
  return std::max(num::encode(rule.scale.type, ideal, num::Overflow::kSaturate), 1u);
}

BlockScale symmetric_scale(const ScaleRule& rule, const Range& range) {
  if (rule.scale.type == DType::kE8m0) {
    return with_scale(rule, mx_scale(range.amax(), rule.type, rule.rounding));
  }
  const double ideal =
      static_cast<double>(range.amax()) / (max_element(rule.type) * static_cast<double>(rule.global));
  return with_scale(rule, encode_scale(rule, ideal));
}

BlockScale asymmetric_scale(const ScaleRule& rule, const Range& range) {
  const double bottom = min_integer(rule.type);
  const double steps = max_element(rule.type) - bottom;
  const double extent = static_cast<double>(range.high()) - static_cast<double>(range.low());
  BlockScale block =
      with_scale(rule, encode_scale(rule, extent / (steps * static_cast<double>(rule.global))));
  // The zero point lies in both its own type and the elements' type, so that 0 is always represented exactly.
  const DType type = *rule.scale.zero_type;
  const double lowest = std::max(min_integer(type), bottom);
  const double highest = std::min(max_element(type), max_element(rule.type));
  const double ideal = bottom - static_cast<double>(range.low()) / static_cast<double>(block.used);
  const double rounded = std::clamp(std::nearbyint(ideal), bottom, max_element(rule.type));
  const double zero = std::clamp(rounded, lowest, highest);
  if (zero != rounded) {
    // Its type cannot hold the zero point that the range wants, and `zero` lies inside the range of codes:
    // the longer side then decides the scale.
    const double side = std::max(static_cast<double>(range.high()) / (max_element(rule.type) - zero),
                                 static_cast<double>(-range.low()) / (zero - bottom));
    block = with_scale(rule, encode_scale(rule, side / static_cast<double>(rule.global)));
  }
  block.zero_code = num::encode(type, zero, num::Overflow::kSaturate);
  block.zero = static_cast<float>(zero);
  return block;
}

}  // namespace

void Range::add(const float* values, int64_t count) {
  int32_t low = low_key_;
  int32_t high = high_key_;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = key_of(std::bit_cast<int32_t>(values[i]));
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  low_key_ = low;
  high_key_ = high;
}

bool Range::finite() const {
  return high_key_ < kInfinityKey &&
         low_key_ > key_of(std::bit_cast<int32_t>(-std::numeric_limits<float>::infinity()));
}

float Range::low() const {
  return number_of(low_key_);
}

float Range::high() const {
  return number_of(high_key_);
}

BlockScale choose_scale(const ScaleRule& rule, const Range& range) {
  if (!range.finite()) {
    BlockScale poisoned = with_scale(
        rule,
        num::encode(rule.scale.type, std::numeric_limits<float>::quiet_NaN(), num::Overflow::kSaturate));
    return poisoned;
  }
  if (range.amax() == 0) {
    return with_scale(rule, num::encode(rule.scale.type, 1.0f, num::Overflow::kSaturate));
  }
  return rule.scale.zero_type ? asymmetric_scale(rule, range) : symmetric_scale(rule, range);
}

float choose_global(DType type, const spec::ScaleSpec& scale, float amax) {
  if (!scale.global || scale.type != DType::kE4m3 || amax == 0) {
    return 1;
  }
  const double ideal = static_cast<double>(amax) / (max_element(type) * max_element(scale.type));
  return std::max(static_cast<float>(ideal), 0x1p-117f);
}

uint32_t mx_scale(float amax, DType type, ScaleRounding rounding) {
  int emax = 0;
  const double top =
      2 * std::frexp(max_element(type), &emax);  // max element = top * 2^(emax - 1), top in [1, 2)
  emax -= 1;
  int exponent = 0;
  const double fraction = 2 * std::frexp(static_cast<double>(amax), &exponent);
  exponent -= 1;
  const int mantissa_bits = info(type).is_float ? info(type).mantissa_bits : emax;
  const bool up = (rounding == ScaleRounding::kCeil && fraction > top) ||
                  (rounding == ScaleRounding::kEven && fraction >= 2 - std::ldexp(1.0, -mantissa_bits - 1));
  return static_cast<uint32_t>(std::clamp(exponent - emax + (up ? 1 : 0) + info(DType::kE8m0).bias, 0, 254));
}

}  // namespace scalegemm::quant
