// Codes of B to pairs of bf16, as VDPBF16PS takes them. One load of a panel (SG_PANEL_K4X16) is 64 bytes: 16
// columns of one 32-bit lane each, which hold 4 k of 8-bit codes or 8 k of 4-bit codes. A lane gives pairs of
// k that lie two bytes apart, so that nothing has to move between lanes:
//
//   8-bit   (0,2) (1,3)                 the low and the high byte of each half of a lane
//   4-bit   (0,2) (4,6) (1,3) (5,7)     its four nibbles: k = 8i + j is the low one of byte j, 8i + 4 + j the
//   high
//
// and A is prepared in the same order (pair_k). Every code of the 8-bit floats and the 4-bit types is a bf16
// number, so a table says all about it: subnormals become normal numbers, NaN stays NaN, and no factor is
// left for a scale to carry.
//
//   8-bit floats   two byte lookups in 128 entries (the magnitude; the sign is or-ed on) give the high and
//   the
//                  low byte of 64 bf16; two shifts and two logic ops join them. fnuz: two masked moves more
//                  for its NaN, 0x80.
//   4-bit types    a 16-bit lookup ignores all but 5 bits of an index, and the table repeats after 16: three
//                  shifts and four lookups for 128 codes, no masks.
//   int8           sign extension to 32 bits, conversion, truncation: many rows only.
//
// Measured on Zen 4, from the first cache, with the dot products of one row: 4-bit types 6.6 cycles for 64
// bytes; its memory delivers them in about 10. (Two k of 32 columns side by side, SG_PANEL_K1X32, have to be
// woven together first: 10 to 12 cycles, whether by unpacks, VPERMT2B, widening or VPMULTISHIFTQB.)
#ifndef SCALEGEMM_KERNELS_CPU_BF16_PAIRS_H_
#define SCALEGEMM_KERNELS_CPU_BF16_PAIRS_H_

#include "cpu/encode.h"
#include "cpu/i8_codes.h"

#if !defined(__AVX512BF16__) || !defined(__AVX512VBMI__)
#error "the bf16 dot family needs -mavx512bf16 -mavx512vbmi"
#endif

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr bool is_float8(int type) {
  return type == SG_E4M3 || type == SG_E4M3_FNUZ || type == SG_E5M2 || type == SG_E5M2_FNUZ;
}

constexpr bool has_pair_table(int type) {
  return is_float8(type) || is_4bit(type);
}

// fraction / 2^bits * 2^exponent as bf16 bits; fraction < 2^(bits + 1).
constexpr uint16_t bf16_bits(int fraction, int bits, int exponent) {
  if (fraction == 0) {
    return 0;
  }
  while (fraction >> bits == 0) {
    fraction <<= 1;
    --exponent;
  }
  return static_cast<uint16_t>((exponent + 127) << 7 | (fraction << (7 - bits) & 0x7f));
}

// The bf16 bits of a code; 8-bit floats: of its magnitude.
constexpr uint16_t bf16_of_code(int type, int code) {
  if (is_float8(type)) {
    const Float8Format f = float8_format(type);
    const int exponent = code >> f.mantissa_bits, fraction = code & ((1 << f.mantissa_bits) - 1);
    const bool top = exponent == (type == SG_E4M3 ? 15 : 31);
    if (!f.fnuz && top && (type == SG_E5M2 || fraction == 7)) {
      return type == SG_E5M2 && fraction == 0 ? 0x7f80 : 0x7fc0;
    }
    return exponent == 0 ? bf16_bits(fraction, f.mantissa_bits, 1 - f.bias)
                         : bf16_bits(fraction | 1 << f.mantissa_bits, f.mantissa_bits, exponent - f.bias);
  }
  if (type == SG_E2M1) {
    const int exponent = code >> 1 & 3, fraction = code & 1;
    const uint16_t sign = code >> 3 ? 0x8000 : 0;
    return sign | (exponent == 0 ? bf16_bits(fraction, 1, 0) : bf16_bits(fraction | 2, 1, exponent - 1));
  }
  const bool negative = type == SG_INT4 && code >= 8;
  return static_cast<uint16_t>((negative ? 0x8000 : 0) | bf16_bits(negative ? 16 - code : code, 4, 4));
}

template <int kType>
struct PairTable {
  alignas(64) uint8_t low[128] = {}, high[128] = {};  // 8-bit floats
  alignas(64) uint16_t words[32] = {};                // 4-bit types

  constexpr PairTable() {
    for (int i = 0; i < 128; ++i) {
      const int bits = is_float8(kType) ? bf16_of_code(kType, i) : 0;
      low[i] = static_cast<uint8_t>(bits & 0xff), high[i] = static_cast<uint8_t>(bits >> 8);
    }
    for (int i = 0; i < 32; ++i) {
      words[i] = is_4bit(kType) ? bf16_of_code(kType, i % 16) : 0;
    }
  }
};

template <int kType>
constexpr PairTable<kType> kPairTable;

// k of one load, and its pairs.
constexpr int pair_step_k(int type) {
  return is_4bit(type) ? 8 : type == SG_BF16 ? 2 : 4;
}
constexpr int step_pairs(int type) {
  return pair_step_k(type) / 2;
}

// The first k of pair i of a step; the second is two further (bf16: one).
constexpr int pair_k(int type, int i) {
  return type == SG_BF16 ? 0 : is_4bit(type) ? i % 2 * 4 + i / 2 : i;
}
constexpr int pair_distance(int type) {
  return type == SG_BF16 ? 1 : 2;
}

// Two vectors of f32 that are bf16 numbers, as pairs.
SG_INLINE I to_pairs(F low, F high) {
  const I high_half = iset1(static_cast<int32_t>(0xffff0000));
  // (high & mask) | (low >> 16)
  return _mm512_ternarylogic_epi32(_mm512_castps_si512(high), high_half,
                                   _mm512_srli_epi32(_mm512_castps_si512(low), 16), 0xea);
}

// A value the compiler knows nothing about: it stays in its register, where it would be loaded again at every
// use (a 512-bit load is as dear as a lookup).
SG_INLINE I in_register(I x) {
  asm("" : "+v"(x));
  return x;
}

// The tables of a type in registers.
template <int kType>
struct PairLookup {
  I low[2], high[2], words;

  SG_INLINE PairLookup() {
    constexpr const PairTable<kType>& table = kPairTable<kType>;
    if constexpr (is_float8(kType)) {
      low[0] = in_register(iload(table.low)), low[1] = in_register(iload(table.low + 64));
      high[0] = in_register(iload(table.high)), high[1] = in_register(iload(table.high + 64));
    } else if constexpr (is_4bit(kType)) {
      words = in_register(iload(table.words));
    }
  }
};

template <int kType>
SG_INLINE void float8_pairs(const PairLookup<kType>& table, I x, I (&pairs)[2]) {
  I low = _mm512_permutex2var_epi8(table.low[0], x, table.low[1]);
  I high = _mm512_permutex2var_epi8(table.high[0], x, table.high[1]);
  high = _mm512_ternarylogic_epi32(high, x, iset1(static_cast<int32_t>(0x80808080)), 0xf8);  // high | (x & m)
  if constexpr (float8_format(kType).fnuz) {
    const __mmask64 nan = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(-128));
    low = _mm512_mask_mov_epi8(low, nan, iset1(static_cast<int32_t>(0xc0c0c0c0)));
    high = _mm512_mask_mov_epi8(high, nan, iset1(0x7f7f7f7f));
  }
  // (low & m) | high << 8, (high & m) | low >> 8
  pairs[0] = _mm512_ternarylogic_epi32(low, iset1(0x00ff00ff), _mm512_slli_epi16(high, 8), 0xea);
  pairs[1] = _mm512_ternarylogic_epi32(high, iset1(static_cast<int32_t>(0xff00ff00)),
                                       _mm512_srli_epi16(low, 8), 0xea);
}

// A load of codes to its pairs.
template <int kType>
SG_INLINE void code_pairs(const PairLookup<kType>& table, const void* codes, I (&pairs)[step_pairs(kType)]) {
  const I x = in_register(iload(codes));
  if constexpr (is_4bit(kType)) {
    pairs[0] = _mm512_permutexvar_epi16(x, table.words);
    pairs[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(x, 4), table.words);
    pairs[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(x, 8), table.words);
    pairs[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(x, 12), table.words);
  } else if constexpr (is_float8(kType)) {
    float8_pairs<kType>(table, x, pairs);
  } else {
    static_assert(kType == SG_INT8);
    pairs[0] = to_pairs(to_float(isar<24>(ishl<24>(x))), to_float(isar<24>(ishl<8>(x))));
    pairs[1] = to_pairs(to_float(isar<24>(ishl<16>(x))), to_float(isar<24>(x)));
  }
}

// pairs - zero; exact for integers.
SG_INLINE I shift_pairs(I pairs, F zero_point) {
  const F high = as_float(iand(pairs, iset1(static_cast<int32_t>(0xffff0000))));
  return to_pairs(sub(as_float(ishl<16>(pairs)), zero_point), sub(high, zero_point));
}

SG_INLINE F dot_pair(F sum, I a, I b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_BF16_PAIRS_H_
