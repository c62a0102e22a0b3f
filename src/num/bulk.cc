#include "num/bulk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "num/format.h"

namespace scalegemm::num {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// --- decoding ---

// The values of all 8- or 4-bit codes of a type.
template <DType type>
const std::array<float, 1u << info(type).bits>& table() {
  static const auto kTable = [] {
    std::array<float, 1u << info(type).bits> values;
    for (uint32_t code = 0; code < values.size(); ++code) {
      values[code] = decode(type, code);
    }
    return values;
  }();
  return kTable;
}

template <DType type>
void decode_bytes(const std::byte* codes, std::span<float> out) {
  const auto& values = table<type>();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = values[static_cast<size_t>(codes[i])];
  }
}

template <DType type>
void decode_nibbles(const std::byte* codes, std::span<float> out) {
  const auto& values = table<type>();
  const size_t pairs = out.size() / 2;
  for (size_t i = 0; i < pairs; ++i) {
    const size_t byte = static_cast<size_t>(codes[i]);
    out[2 * i] = values[byte & 0xF];
    out[2 * i + 1] = values[byte >> 4];
  }
  if (out.size() % 2 != 0) {
    out[2 * pairs] = values[static_cast<size_t>(codes[pairs]) & 0xF];
  }
}

void decode_int8(const std::byte* codes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(codes[i]));
  }
}

void decode_int32(const std::byte* codes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(load<int32_t>(codes + 4 * i));
  }
}

void decode_bf16(const std::byte* codes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(codes + 2 * i)) << 16);
  }
}

// The bits of a half moved to the place of an f32's, then a multiplication by 2^(127 - 15) that mends the
// exponent; it is exact and also turns subnormal halves into normal numbers. Infinity and NaN get f32's
// exponent.
void decode_f16(const std::byte* codes, std::span<float> out) {
  constexpr float kRebias = 0x1p112f;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t half = load<uint16_t>(codes + 2 * i);
    const uint32_t magnitude = (half & 0x7FFFu) << 13;
    uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * kRebias);
    bits |= magnitude >= 0x7C00u << 13 ? kF32Infinity : 0u;
    out[i] = std::bit_cast<float>(bits | (half & 0x8000u) << 16);
  }
}

// --- encoding ---

template <DType type, class Code>
void encode_float(std::span<const float> values, Overflow overflow, std::byte* codes) {
  constexpr FloatFormat kFormat = float_format(type);
  const uint32_t past = overflow == Overflow::kIeee ? kFormat.overflow_code : kFormat.max_code;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t code = round_to_format<kFormat>(std::bit_cast<uint32_t>(values[i]), past);
    store(codes + sizeof(Code) * i, static_cast<Code>(code));
  }
}

// Clamped to the type's range, a value is small enough that adding 1.5 * 2^23 rounds it to an integer, ties
// to even, which then sits in the low bits of the sum. The clamp compares magnitudes as integers (see
// select).
template <DType type>
void encode_small_integer(std::span<const float> values, std::byte* codes) {
  constexpr float kMagic = 0x1.8p23f;
  constexpr uint32_t kTop = std::bit_cast<uint32_t>(info(type).max_finite);
  constexpr uint32_t kBottom =
      std::bit_cast<uint32_t>(info(type).is_signed ? info(type).max_finite + 1 : 0.0f);
  constexpr uint32_t kMask = (1u << info(type).bits) - 1;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t magnitude = bits & kF32Magnitude;
    const uint32_t limit = select(0u - (bits >> 31), kBottom, kTop);
    const uint32_t clamped = select(mask_less(limit, magnitude), limit, magnitude);
    const uint32_t number = clamped & ~mask_less(kF32Infinity, magnitude);  // NaN becomes 0
    const float rounded = std::bit_cast<float>(number | (bits & ~kF32Magnitude)) + kMagic;
    codes[i] = static_cast<std::byte>(std::bit_cast<uint32_t>(rounded) & kMask);
  }
}

template <DType type>
void encode_byte_each(std::span<const float> values, Overflow overflow, std::byte* codes) {
  if constexpr (info(type).is_float) {
    encode_float<type, uint8_t>(values, overflow, codes);
  } else {
    encode_small_integer<type>(values, codes);
  }
}

// One code a byte into a buffer of the first-level cache, then pairs of bytes into one.
template <DType type>
void encode_nibbles(std::span<const float> values, Overflow overflow, std::byte* codes) {
  constexpr size_t kChunk = 512;
  std::array<std::byte, kChunk> wide;
  for (size_t begin = 0; begin < values.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, values.size() - begin);
    encode_byte_each<type>(values.subspan(begin, count), overflow, wide.data());
    if (count % 2 != 0) {
      wide[count] = std::byte{0};  // count < kChunk, as kChunk is even
    }
    for (size_t i = 0; i < (count + 1) / 2; ++i) {
      const uint32_t pair = load<uint16_t>(wide.data() + 2 * i);
      codes[begin / 2 + i] = static_cast<std::byte>(pair | pair >> 4);
    }
  }
}

// Types whose arrays are short or rare.
void encode_scalar(DType type, std::span<const float> values, Overflow overflow, std::byte* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    store_code(type, codes, static_cast<int64_t>(i), encode(type, values[i], overflow));
  }
}

}  // namespace

void decode_array(DType type, const std::byte* codes, std::span<float> out) {
  switch (type) {
    case DType::kF32:
      if (!out.empty()) {
        std::memcpy(out.data(), codes, out.size_bytes());
      }
      return;
    case DType::kF16:
      return decode_f16(codes, out);
    case DType::kBf16:
      return decode_bf16(codes, out);
    case DType::kE4m3:
      return decode_bytes<DType::kE4m3>(codes, out);
    case DType::kE4m3Fnuz:
      return decode_bytes<DType::kE4m3Fnuz>(codes, out);
    case DType::kE5m2:
      return decode_bytes<DType::kE5m2>(codes, out);
    case DType::kE5m2Fnuz:
      return decode_bytes<DType::kE5m2Fnuz>(codes, out);
    case DType::kE2m1:
      return decode_nibbles<DType::kE2m1>(codes, out);
    case DType::kE8m0:
      return decode_bytes<DType::kE8m0>(codes, out);
    case DType::kInt8:
      return decode_int8(codes, out);
    case DType::kInt4:
      return decode_nibbles<DType::kInt4>(codes, out);
    case DType::kUint4:
      return decode_nibbles<DType::kUint4>(codes, out);
    case DType::kInt32:
      return decode_int32(codes, out);
  }
}

void encode_array(DType type, std::span<const float> values, Overflow overflow, std::byte* codes) {
  switch (type) {
    case DType::kF16:
      return encode_float<DType::kF16, uint16_t>(values, overflow, codes);
    case DType::kBf16:
      return encode_float<DType::kBf16, uint16_t>(values, overflow, codes);
    case DType::kE4m3:
      return encode_float<DType::kE4m3, uint8_t>(values, overflow, codes);
    case DType::kE4m3Fnuz:
      return encode_float<DType::kE4m3Fnuz, uint8_t>(values, overflow, codes);
    case DType::kE5m2:
      return encode_float<DType::kE5m2, uint8_t>(values, overflow, codes);
    case DType::kE5m2Fnuz:
      return encode_float<DType::kE5m2Fnuz, uint8_t>(values, overflow, codes);
    case DType::kInt8:
      return encode_small_integer<DType::kInt8>(values, codes);
    case DType::kE2m1:
      return encode_nibbles<DType::kE2m1>(values, overflow, codes);
    case DType::kInt4:
      return encode_nibbles<DType::kInt4>(values, overflow, codes);
    case DType::kUint4:
      return encode_nibbles<DType::kUint4>(values, overflow, codes);
    case DType::kF32:
    case DType::kE8m0:
    case DType::kInt32:
      return encode_scalar(type, values, overflow, codes);
  }
}

uint32_t load_code(DType type, const std::byte* codes, int64_t index) {
  switch (info(type).bits) {
    case 4:
      return static_cast<uint32_t>(codes[index / 2]) >> (index % 2 * 4) & 0xFu;
    case 8:
      return static_cast<uint32_t>(codes[index]);
    case 16:
      return load<uint16_t>(codes + 2 * index);
    default:
      return load<uint32_t>(codes + 4 * index);
  }
}

void store_code(DType type, std::byte* codes, int64_t index, uint32_t code) {
  switch (info(type).bits) {
    case 4: {
      const int shift = static_cast<int>(index % 2 * 4);
      const uint32_t kept = static_cast<uint32_t>(codes[index / 2]) & (0xF0u >> shift);
      codes[index / 2] = static_cast<std::byte>(kept | (code & 0xFu) << shift);
      return;
    }
    case 8:
      codes[index] = static_cast<std::byte>(code);
      return;
    case 16:
      store(codes + 2 * index, static_cast<uint16_t>(code));
      return;
    default:
      store(codes + 4 * index, code);
  }
}

}  // namespace scalegemm::num
