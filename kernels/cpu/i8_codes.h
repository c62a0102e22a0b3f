// What the int8-dot kernels make of codes: integers small enough for a byte dot product, exactly.
//
//   type    integer           as weights (B)            as activations (A)
//   int8    code              code + 128 | words        int8
//   int4    code              code + 8                  int8
//   uint4   code              code                      int8
//   e2m1    value * 2         value * 2 + 12            int8    (the factor 1/2 goes into the scales)
//
// VPDPBUSD multiplies unsigned by signed bytes, so weights are stored biased to unsigned and the sum starts
// at -bias * (sum of the activations), which makes it exact again:
//
//   sum a*b = sum a*(b + bias) - bias * sum a          (all in int32 modulo 2^32: only the result must fit)
//
// A "dot group" is what one dot instruction consumes of a row: 4 bytes of A, and one vector of B for every
// kLanes columns. A step is one 64-byte load of a panel (SG_PANEL_K4X16): 4 k of 8-bit codes or 8 k of 4-bit
// codes, which make
//
//   AVX-512, 8-bit   1 group   4 k as bytes                              VPDPBUSD into int32
//   AVX-512, 4-bit   2 groups  k 0..3 (low nibbles), k 4..7              VPDPBUSD into int32
//   AVX2, 4-bit      2 groups  the same; VPMADDUBSW into int16, which holds i8_flush_steps() steps without
//                              saturation, then VPMADDWD with ones into int32
//   AVX2, 8-bit      2 groups  k 0 and 2, k 1 and 3 as words (bytes would saturate VPMADDUBSW:
//                              2 * 128 * 255 > 32767); VPMADDWD into int32, no bias
#ifndef SCALEGEMM_KERNELS_CPU_I8_CODES_H_
#define SCALEGEMM_KERNELS_CPU_I8_CODES_H_

#include "cpu/decode.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kPanelColumns = 16;
constexpr int kPanelVecs = kPanelColumns / kLanes;

// Products of pairs of words instead of biased bytes.
constexpr bool i8_words(int b) {
  return !SG_CPU_AVX512 && b == SG_INT8;
}
// Sums in int16 first.
constexpr bool i8_short_sums(int b) {
  return !SG_CPU_AVX512 && is_4bit(b);
}

constexpr int i8_step_k(int b) {
  return is_4bit(b) ? 8 : 4;
}
constexpr int i8_groups(int b) {
  return is_4bit(b) || i8_words(b) ? 2 : 1;
}
constexpr int i8_bias(int b) {
  return b == SG_E2M1 ? 12 : b == SG_INT4 ? 8 : b == SG_INT8 && !i8_words(b) ? 128 : 0;
}

// The largest |integer| of an activation type, zero points of 4-bit types taken off.
constexpr int i8_max_a(int a, bool zero_points) {
  return a == SG_INT8 ? 128 : zero_points ? 23 : 15;
}

// Steps (two dots each) whose VPMADDUBSW sums fit in int16.
constexpr int64_t i8_flush_steps(int b, int max_a) {
  const int max_b = b == SG_E2M1 ? 24 : 15;
  return 32767 / (2 * max_a * max_b) / 2;
}

// Value * this is the integer.
constexpr float i8_unit(int type) {
  return type == SG_E2M1 ? 0.5f : 1.0f;
}

#if SG_CPU_AVX512
SG_INLINE I i8_table(__m128i table, I index) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}
SG_INLINE I i8_and_xor(I x, I mask, I flip) {
  return _mm512_ternarylogic_epi32(x, mask, flip, 0x6a);
}
#else
SG_INLINE I i8_table(__m128i table, I index) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}
SG_INLINE I i8_and_xor(I x, I mask, I flip) {
  return ixor(iand(x, mask), flip);
}
#endif

// One vector (kLanes columns) of a step: kGroups vectors for the dots.
template <int kB>
SG_INLINE void i8_load_weights(const uint8_t* p, I* group) {
  const I w = iload(p);
  const I nibbles = iset1(0x0f0f0f0f);
  if constexpr (kB == SG_E2M1) {
    const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    group[0] = i8_table(table, iand(w, nibbles));
    group[1] = i8_table(table, iand(ishr<4>(w), nibbles));
  } else if constexpr (kB == SG_INT4) {
    const I flip = iset1(0x08080808);
    group[0] = i8_and_xor(w, nibbles, flip);
    group[1] = i8_and_xor(ishr<4>(w), nibbles, flip);
  } else if constexpr (kB == SG_UINT4) {
    group[0] = iand(w, nibbles);
    group[1] = iand(ishr<4>(w), nibbles);
  } else {
    static_assert(kB == SG_INT8);
#if SG_CPU_AVX512
    group[0] = ixor(w, iset1(static_cast<int32_t>(0x80808080)));
#else
    group[0] = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
    group[1] = _mm256_srai_epi16(w, 8);
#endif
  }
}

// acc + dot(b, the 4 bytes at a). VPDPBUSD is written as asm because the broadcast must stay its memory
// operand and its accumulator in one register: GCC 12 splits the load off and copies the accumulators in
// every step.
template <int kB>
SG_INLINE I i8_dot(I acc, I b, const uint8_t* a) {
#if SG_CPU_AVX512
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*reinterpret_cast<const int32_t*>(a)));
  return acc;
#else
  int32_t four;
  __builtin_memcpy(&four, a, 4);
  if constexpr (i8_words(kB)) {
    return iadd(acc, _mm256_madd_epi16(b, iset1(four)));
  } else {
    return _mm256_add_epi16(acc, _mm256_maddubs_epi16(b, iset1(four)));
  }
#endif
}

#if SG_CPU_AVX512
SG_INLINE I imul(I a, I b) {
  return _mm512_mullo_epi32(a, b);
}
// x | bits where x == y, else x.
SG_INLINE I ior_equal(I x, I bits, I y) {
  return _mm512_mask_or_epi32(x, iequal(x, y), x, bits);
}
#else
SG_INLINE I imul(I a, I b) {
  return _mm256_mullo_epi32(a, b);
}
SG_INLINE I ior_equal(I x, I bits, I y) {
  return ior(x, iand(bits, _mm256_cmpeq_epi32(x, y)));
}
#endif

// 4-bit activation codes (`bytes` bytes, two codes each) to int8, and the tables of all 4-bit types.
SG_INLINE __m128i i8_activation_table(int type) {
  switch (type) {
    case SG_E2M1:
      return _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    case SG_INT4:
      return _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    default:
      return _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

// Reads and writes whole groups of 16 and 32 bytes: `bytes` is a multiple of 16.
inline void i8_widen_nibbles(const uint8_t* codes, int64_t bytes, int type, uint8_t* out) {
  const __m128i table = i8_activation_table(type);
  const __m128i nibbles = _mm_set1_epi8(15);
  for (int64_t i = 0; i < bytes; i += 16) {
    const __m128i w = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    const __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(w, nibbles));
    const __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(w, 4), nibbles));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), _mm_unpacklo_epi8(even, odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i + 16), _mm_unpackhi_epi8(even, odd));
  }
}

// Sum of n int8.
inline int32_t i8_sum(const uint8_t* p, int64_t n) {
  __m256i acc = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
    acc = _mm256_add_epi64(
        acc, _mm256_sad_epu8(_mm256_xor_si256(x, _mm256_set1_epi8(-128)), _mm256_setzero_si256()));
  }
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(acc), _mm256_extracti128_si256(acc, 1));
  int64_t sum = _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1) - 128 * i;
  for (; i < n; ++i) {
    sum += static_cast<int8_t>(p[i]);
  }
  return static_cast<int32_t>(sum);
}

// kLanes scales of `type` at p.
template <int kType>
SG_INLINE F i8_scale_vector(const uint8_t* p) {
  if constexpr (kType == SG_F32) {
    return as_float(iload(p));
  } else if constexpr (kType == SG_F16) {
    return load_f16(p);
  } else if constexpr (kType == SG_BF16) {
    return as_float(ishl<16>(load_u16(p)));
  } else if constexpr (kType == SG_E8M0) {
    // The byte is the exponent field; 0 means 2^-127, a subnormal, and 255 a NaN.
    const I half = iset1(0x400000);
    const I field = imax(ishl<23>(load_u8(p)), half);
    return as_float(ior_equal(field, half, iset1(0x7f800000)));
  } else {
    static_assert(kType == SG_E4M3);
    const I b = load_i8(p);
    const I magnitude = iand(b, iset1(0x7f));
    const I bits = ior(ishl<20>(magnitude), iand(b, iset1(INT32_MIN)));
    return select(iequal(magnitude, iset1(0x7f)), as_float(iset1(0x7fc00000)),
                  mul(as_float(bits), set1(0x1p120f)));
  }
}

// The same with a run-time type: f32, f16, bf16, e8m0 or e4m3. The branch is the same for a whole call.
SG_INLINE F i8_scale_vector(const uint8_t* p, int type) {
  switch (type) {
    case SG_F32:
      return i8_scale_vector<SG_F32>(p);
    case SG_E8M0:
      return i8_scale_vector<SG_E8M0>(p);
    case SG_BF16:
      return i8_scale_vector<SG_BF16>(p);
    case SG_F16:
      return i8_scale_vector<SG_F16>(p);
    default:
      return i8_scale_vector<SG_E4M3>(p);
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_CODES_H_
