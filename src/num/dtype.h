// The data types of scalegemm: one row a type. Everything that depends on a type reads this table.
//
// Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for e4m3 and e5m2; OCP Microscaling Formats
// (MX) 1.0 for e2m1 and e8m0; the *_fnuz flavours are those of AMD CDNA3 (no infinities, one NaN at the
// code of negative zero, bias one larger); IEEE 754 for f16 and f32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace scalegemm::num {

// Numeric values are part of the C ABI (scalegemm_dtype) and of packed files: append only.
enum class DType : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kE4m3 = 4,
  kE4m3Fnuz = 5,
  kE5m2 = 6,
  kE5m2Fnuz = 7,
  kE2m1 = 8,
  kE8m0 = 9,
  kInt8 = 10,
  kInt4 = 11,
  kUint4 = 12,
  kInt32 = 13,
};

struct DTypeInfo {
  DType type;
  std::string_view name;
  int bits;       // storage bits of one element: 4, 8, 16 or 32
  bool is_float;  // false: two's complement or unsigned integer
  bool is_signed;
  int exponent_bits;  // 0 for integers
  int mantissa_bits;  // explicit bits, 0 for integers and e8m0
  int bias;           // exponent bias
  bool has_infinity;
  bool has_nan;
  float max_finite;    // the largest finite value
  float min_positive;  // the smallest positive value (a subnormal where there are any); 1 for integers
};

inline constexpr std::array<DTypeInfo, 13> kDTypes = {{
    {DType::kF32, "f32", 32, true, true, 8, 23, 127, true, true, 0x1.fffffep127f, 0x1p-149f},
    {DType::kF16, "f16", 16, true, true, 5, 10, 15, true, true, 65504.0f, 0x1p-24f},
    {DType::kBf16, "bf16", 16, true, true, 8, 7, 127, true, true, 0x1.fep127f, 0x1p-133f},
    {DType::kE4m3, "e4m3", 8, true, true, 4, 3, 7, false, true, 448.0f, 0x1p-9f},
    {DType::kE4m3Fnuz, "e4m3_fnuz", 8, true, true, 4, 3, 8, false, true, 240.0f, 0x1p-10f},
    {DType::kE5m2, "e5m2", 8, true, true, 5, 2, 15, true, true, 57344.0f, 0x1p-16f},
    {DType::kE5m2Fnuz, "e5m2_fnuz", 8, true, true, 5, 2, 16, false, true, 57344.0f, 0x1p-17f},
    {DType::kE2m1, "e2m1", 4, true, true, 2, 1, 1, false, false, 6.0f, 0.5f},
    {DType::kE8m0, "e8m0", 8, true, false, 8, 0, 127, false, true, 0x1p127f, 0x1p-127f},
    {DType::kInt8, "int8", 8, false, true, 0, 0, 0, false, false, 127.0f, 1.0f},
    {DType::kInt4, "int4", 4, false, true, 0, 0, 0, false, false, 7.0f, 1.0f},
    {DType::kUint4, "uint4", 4, false, false, 0, 0, 0, false, false, 15.0f, 1.0f},
    {DType::kInt32, "int32", 32, false, true, 0, 0, 0, false, false, 2147483647.0f, 1.0f},
}};

// The row of a type. `type` must be a named enumerator (is_valid).
constexpr const DTypeInfo& info(DType type) {
  return kDTypes[static_cast<size_t>(type) - 1];
}

constexpr bool is_valid(int value) {
  return value >= 1 && value <= static_cast<int>(kDTypes.size());
}

constexpr std::string_view name(DType type) {
  return info(type).name;
}

constexpr bool is_packed4(DType type) {
  return info(type).bits == 4;
}

// Bytes of `count` consecutive elements; for 4-bit types count must be even (two codes a byte, the even
// index in the low nibble).
constexpr int64_t bytes_of(DType type, int64_t count) {
  return count * info(type).bits / 8;
}

// The type of that name, or nothing.
constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.name == text) {
      return row.type;
    }
  }
  return std::nullopt;
}

}  // namespace scalegemm::num
