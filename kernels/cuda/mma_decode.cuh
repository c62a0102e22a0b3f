// Codes to the type that the mma multiplies ("via"), four or eight codes at a time, exactly, NaN and
// infinities included. Every decoder maps code 0 to +0: zeroed memory is a zero operand.
//
// decode_word turns the codes of one 32-bit word, in ascending order, into words of via, in the same order.
//   e4m3 -> f16    exponent and mantissa dropped into the f16 fields, times 2^8; adding the mantissa's lowest
//                  bit carries past the exponent exactly when all seven bits are ones, the NaN, and that
//                  carry completes an f16 NaN. 6 operations for two codes.
//   e4m3 -> bf16   the same with 2^120.   e5m2 -> f16: a shift.   e5m2 -> bf16: 2^112, exponent 31 completed.
//   e2m1           fields dropped in, times 2^14 (f16), 2^126 (bf16); via int8 twice its value, by a table
//   int4, uint4    the nibble in the low mantissa bits of 1024 (bf16: 128), minus that base
//   int8 -> f16    the same with the byte; -> bf16 through f32, as are the fnuz types
#pragma once
#include "cuda/finish.cuh"

namespace scalegemm::cuda {

enum class Via : u8 { kF16, kBf16, kInt8, kF32 };

SG_CONSTEXPR u32 bytes_of(Via v) {
  return v == Via::kF32 ? 4 : v == Via::kInt8 ? 1 : 2;
}
SG_CONSTEXPR u32 bits_of(SgDType t) {
  return t == SG_E2M1 || t == SG_INT4 || t == SG_UINT4 ? 4 : 8 * storage_bytes(t);
}
// Codes of this type are already numbers of `via`.
SG_CONSTEXPR bool is_native(SgDType t, Via v) {
  return (t == SG_F16 && v == Via::kF16) || (t == SG_BF16 && v == Via::kBf16) ||
         (t == SG_INT8 && v == Via::kInt8) || (t == SG_F32 && v == Via::kF32);
}
// Pairs of an operand type and via for which every code is exact.
SG_CONSTEXPR bool is_exact(SgDType t, Via v) {
  if (v == Via::kInt8)
    return t == SG_INT8 || t == SG_INT4 || t == SG_UINT4 || t == SG_E2M1;
  if (v == Via::kF32)
    return t != SG_E8M0 && t != SG_INT32;
  return is_native(t, v) || (t != SG_F32 && t != SG_F16 && t != SG_BF16 && t != SG_E8M0 && t != SG_INT32);
}
// What a sum of products must be multiplied by for this operand.
SG_CONSTEXPR float via_factor(SgDType t, Via v) {
  return t == SG_E2M1 && v == Via::kInt8 ? 0.5f : 1.0f;
}

// Bytes of the pair {b, a} picked by the nibbles of `selector` (PTX prmt; bit 3 of a nibble copies the sign).
SG_DEVICE u32 permute(u32 a, u32 b, u32 selector) {
  return __byte_perm(a, b, selector);
}
// Two 16-bit numbers in a word: x * y + z.
template <Via kVia>
SG_DEVICE u32 fma_pair(u32 x, u32 y, u32 z) {
  u32 r;
  if constexpr (kVia == Via::kF16)
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}
template <Via kVia>
SG_DEVICE u32 pack_pair(float low, float high) {
  return kVia == Via::kF16 ? pack_f16(low, high) : pack_bf16(low, high);
}
constexpr u32 kMinusZeros = 0x80008000u;  // x * y + -0 keeps the sign of a zero product

// Two 8-bit codes, each in the high byte of a half, to via.
template <SgDType kType, Via kVia>
SG_DEVICE u32 decode_high_bytes(u32 w) {
  const u32 sign = w & 0x80008000u;
  if constexpr (kType == SG_E4M3 && kVia == Via::kF16) {
    const u32 x = (w & 0x7f007f00u) >> 1;
    return fma_pair<kVia>(x | ((x + 0x00800080u) & 0x40004000u) | sign, 0x5c005c00u, kMinusZeros);  // 2^8
  } else if constexpr (kType == SG_E4M3 && kVia == Via::kBf16) {
    const u32 x = (w & 0x7f007f00u) >> 4;
    const u32 nan = ((x + 0x00100010u) & 0x08000800u) * 15;
    return fma_pair<kVia>(x | nan | sign, 0x7b807b80u, kMinusZeros);  // 2^120
  } else if constexpr (kType == SG_E5M2 && kVia == Via::kF16) {
    return w;
  } else {
    static_assert(kType == SG_E5M2 && kVia == Via::kBf16, "no such decoder");
    const u32 x = (w & 0x7f007f00u) >> 3;
    const u32 top = (((x & 0x0f800f80u) + 0x00800080u) & 0x10001000u) * 7;
    return fma_pair<kVia>(x | top | sign, 0x77807780u, kMinusZeros);  // 2^112
  }
}

// Four 8-bit codes to four 16-bit numbers.
template <SgDType kType, Via kVia>
SG_DEVICE void decode_bytes(u32 w, u32 (&out)[2]) {
  if constexpr (kType == SG_E4M3 || kType == SG_E5M2) {
    out[0] = decode_high_bytes<kType, kVia>(permute(w, 0, 0x1404));
    out[1] = decode_high_bytes<kType, kVia>(permute(w, 0, 0x3424));
  } else if constexpr (kType == SG_INT8 && kVia == Via::kF16) {
    const u32 raised = w ^ 0x80808080u;  // code + 128; 0x6400 is 1024
    out[0] = fma_pair<kVia>(permute(raised, 0x64, 0x4140), 0x3c003c00u, 0xe480e480u);  // - 1152
    out[1] = fma_pair<kVia>(permute(raised, 0x64, 0x4342), 0x3c003c00u, 0xe480e480u);
  } else {
    out[0] = pack_pair<kVia>(decode_number(w & 0xff, kType), decode_number(w >> 8 & 0xff, kType));
    out[1] = pack_pair<kVia>(decode_number(w >> 16 & 0xff, kType), decode_number(w >> 24, kType));
  }
}

// Eight 4-bit codes to eight 16-bit numbers: a pair a byte.
template <SgDType kType, Via kVia>
SG_DEVICE void decode_nibbles(u32 w, u32 (&out)[4]) {
  constexpr bool kHalf = kVia == Via::kF16;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 byte = w >> (8 * i), pair = (byte & 0xf) | (byte & 0xf0) << 12;
    if constexpr (kType == SG_E2M1) {
      const u32 sign = (pair & 0x00080008u) << 12, rest = (pair & 0x00070007u) << (kHalf ? 9 : 6);
      out[i] = fma_pair<kVia>(rest | sign, kHalf ? 0x74007400u : 0x7e807e80u, kMinusZeros);
    } else {
      constexpr u32 kOne = kHalf ? 0x3c003c00u : 0x3f803f80u, kBase = kHalf ? 0x64006400u : 0x43004300u;
      constexpr u32 kFlip = kType == SG_INT4 ? 0x00080008u : 0;
      // 1024 and 1032, 128 and 136, negative
      constexpr u32 kMinus =
          kType == SG_INT4 ? (kHalf ? 0xe408e408u : 0xc308c308u) : (kHalf ? 0xe400e400u : 0xc300c300u);
      out[i] = fma_pair<kVia>((pair ^ kFlip) | kBase, kOne, kMinus);
    }
  }
}

// Four bytes minus four bytes, none borrowing from its neighbour.
SG_DEVICE u32 subtract_bytes(u32 x, u32 y) {
  constexpr u32 kHigh = 0x80808080u;
  return ((x | kHigh) - (y & ~kHigh)) ^ ((x ^ ~y) & kHigh);
}
// Eight 4-bit codes to eight int8; e2m1 as twice its value.
template <SgDType kType>
SG_DEVICE void decode_nibbles_int8(u32 w, u32 (&out)[2]) {
  const u32 even = w & 0x0f0f0f0fu, odd = w >> 4 & 0x0f0f0f0fu;
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    const u32 codes = permute(even, odd, i == 0 ? 0x5140 : 0x7362);
    if constexpr (kType == SG_UINT4) {
      out[i] = codes;
    } else if constexpr (kType == SG_INT4) {
      out[i] = subtract_bytes(codes ^ 0x08080808u, 0x08080808u);
    } else {
      const u32 selector = (w >> (16 * i)) & 0x7777u;
      const u32 magnitude = permute(0x03020100u, 0x0c080604u, selector);
      const u32 negative = (codes >> 3 & 0x01010101u) * 0xff;
      out[i] = (subtract_bytes(0, magnitude) & negative) | (magnitude & ~negative);
    }
  }
}

// Words of via for one word of codes.
template <SgDType kType, Via kVia>
constexpr u32 kWordsOut = 8 * bytes_of(kVia) / bits_of(kType);

template <SgDType kType, Via kVia>
SG_DEVICE void decode_word(u32 w, u32 (&out)[kWordsOut<kType, kVia>]) {
  if constexpr (is_native(kType, kVia)) {
    out[0] = w;
  } else if constexpr (kVia == Via::kF32) {
    constexpr u32 kBits = bits_of(kType);
#pragma unroll
    for (u32 i = 0; i < 32 / kBits; ++i)
      out[i] = __float_as_uint(decode_number(w >> (kBits * i) & ((1u << kBits) - 1), kType));
  } else if constexpr (kVia == Via::kInt8) {
    decode_nibbles_int8<kType>(w, out);
  } else if constexpr (bits_of(kType) == 4) {
    decode_nibbles<kType, kVia>(w, out);
  } else {
    decode_bytes<kType, kVia>(w, out);
  }
}

// A word of via minus zero points, which are integers: `zero` is that of the word's elements, and of an int8
// word's first two; `zero2` that of its last two.
template <Via kVia>
SG_DEVICE u32 subtract_zero(u32 word, i32 zero, i32 zero2) {
  if constexpr (kVia == Via::kF32) {
    return __float_as_uint(__uint_as_float(word) - static_cast<float>(zero));
  } else if constexpr (kVia == Via::kInt8) {
    const u32 low = (zero & 0xff) * 0x101u, high = (zero2 & 0xff) * 0x101u;
    return subtract_bytes(word, low | high << 16);
  } else {
    const float minus = -static_cast<float>(zero);
    const u32 one = kVia == Via::kF16 ? 0x3c003c00u : 0x3f803f80u;
    return fma_pair<kVia>(word, one, pack_pair<kVia>(minus, minus));
  }
}
// The first `count` elements of a word of via, zeros behind them.
template <Via kVia>
SG_DEVICE u32 keep_elements(u32 word, i32 count) {
  constexpr i32 kElements = 4 / bytes_of(kVia);
  if (count >= kElements)
    return word;
  return count <= 0 ? 0 : word & ((1u << (32 / kElements * count)) - 1);
}

}  // namespace scalegemm::cuda
