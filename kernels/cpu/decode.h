// Codes to f32: decode_group<type>(p, out) turns 32 storage elements that lie side by side into f32, exactly,
// for every code: subnormals are kept, NaN codes give NaN.
//
// For the 4-bit types one storage element is a byte with the codes of k (low nibble) and k + 1 (high nibble):
// 32 bytes give out.v[0..kVecs) for k and out.v[kVecs..2*kVecs) for k + 1.
//
// How each type is decoded (k = kVecs vectors; op counts are for AVX-512 and 32 values):
//   e4m3        byte b sign-extended to 16 bits and shifted left by 7 is f16 with the sign twice (bits 15,
//   14)
//               and an exponent 8 too small. Adding 0x80 carries into bit 14 exactly when b is 0x7f or 0xff,
//               the NaN codes; that carry, xor-ed over the spare sign bit, makes an f16 NaN and else clears
//               the bit. 1 widen + 3 ops + 2 cvtph2ps + 2 mul by 2^8, which callers fold into the scale:
//               decode leaves it out and kFactor names it.
//   e4m3_fnuz   the same with 2^7; its NaN is 0x80 alone, compared for.
//   e5m2        byte << 8 is f16. 1 widen + 1 shift + 2 cvtph2ps.
//   e5m2_fnuz   the exponent field, 5 bits, dropped into f32's (so subnormals are f32 subnormals), times
//   2^111
//               (kFactor): the largest exponent is a number here and infinity in f16.
//   e2m1, int4, uint4   16-entry table by vpermps (it reads only the low 4 bits of an index, so the low
//   nibble
//               needs no mask); AVX2 permutes 8 entries and moves the sign bit, or shifts and converts.
//   bf16        16-bit value << 16.  f16  vcvtph2ps.  int8  sign extension, convert.
#ifndef SCALEGEMM_KERNELS_CPU_DECODE_H_
#define SCALEGEMM_KERNELS_CPU_DECODE_H_

#include "cpu/simd.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr bool is_4bit(int type) {
  return type == SG_E2M1 || type == SG_INT4 || type == SG_UINT4;
}

// Bytes of one storage element.
constexpr int storage_bytes(int type) {
  switch (type) {
    case SG_F32:
    case SG_INT32:
      return 4;
    case SG_F16:
    case SG_BF16:
      return 2;
    default:
      return 1;
  }
}

// Bytes of a full group of 32 storage elements.
constexpr int group_bytes(int type) {
  return kGroup * storage_bytes(type);
}

// What decoded values must be multiplied by; a power of two, so the product with a scale is exact barring
// overflow (no scale type reaches 2^16 times its range in a way f32 could not hold unscaled).
constexpr float decode_factor(int type) {
  switch (type) {
    case SG_E4M3:
      return 0x1p8f;
    case SG_E4M3_FNUZ:
      return 0x1p7f;
    case SG_E5M2_FNUZ:
      return 0x1p111f;
    default:
      return 1.0f;
  }
}

template <int kType>
struct Decoded {
  F v[is_4bit(kType) ? 2 * kVecs : kVecs];
};

// 2*kLanes bytes at p, each made a 16-bit value by `Widen`, then two vectors of f32.
#if SG_CPU_AVX512
using Words = __m512i;
SG_INLINE Words sign_extend_words(const void* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
SG_INLINE Words high_byte_words(const void* p) {
  return _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 8);
}
SG_INLINE void words_to_float(Words w, F* out) {
  out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(w));
  out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(w, 1));
}
SG_INLINE Words e4m3_words(Words b) {
  const Words s = _mm512_slli_epi16(b, 7);
  const Words carry = _mm512_add_epi16(s, _mm512_set1_epi16(0x80));
  // s ^ (carry & 0x4000)
  return _mm512_ternarylogic_epi32(s, carry, _mm512_set1_epi16(0x4000), 0x78);
}
SG_INLINE Words e4m3_fnuz_words(Words b) {
  const Words s = _mm512_slli_epi16(b, 7);
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(b, _mm512_set1_epi16(-128));
  return _mm512_mask_mov_epi16(_mm512_and_si512(s, _mm512_set1_epi16(static_cast<int16_t>(0xbfff))), nan,
                               _mm512_set1_epi16(0x7e00));
}
#else
using Words = __m256i;
SG_INLINE Words sign_extend_words(const void* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SG_INLINE Words high_byte_words(const void* p) {
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 8);
}
SG_INLINE void words_to_float(Words w, F* out) {
  out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(w));
  out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(w, 1));
}
SG_INLINE Words e4m3_words(Words b) {
  const Words s = _mm256_slli_epi16(b, 7);
  const Words carry = _mm256_add_epi16(s, _mm256_set1_epi16(0x80));
  return _mm256_xor_si256(s, _mm256_and_si256(carry, _mm256_set1_epi16(0x4000)));
}
SG_INLINE Words e4m3_fnuz_words(Words b) {
  const Words s = _mm256_slli_epi16(b, 7);
  const Words nan = _mm256_cmpeq_epi16(b, _mm256_set1_epi16(-128));
  return _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi16(static_cast<int16_t>(0xbfff))), nan);
}
#endif

// The table of a 4-bit type, as looked up with the low 4 bits of every lane (the other bits are ignored).
template <int kType>
SG_INLINE F nibble_to_float(I code) {
#if SG_CPU_AVX512
  const F table = kType == SG_E2M1
                      ? _mm512_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6)
                  : kType == SG_INT4 ? _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1)
                                     : _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_permutexvar_ps(code, table);
#else
  if constexpr (kType == SG_E2M1) {
    const F magnitude = _mm256_permutevar8x32_ps(_mm256_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6), code);
    return as_float(ixor(as_int(magnitude), iand(ishl<28>(code), iset1(INT32_MIN))));
  } else if constexpr (kType == SG_INT4) {
    return to_float(isar<28>(ishl<28>(code)));
  } else {
    return to_float(iand(code, iset1(15)));
  }
#endif
}

template <int kType>
SG_INLINE Decoded<kType> decode_group(const void* codes) {
  const uint8_t* p = static_cast<const uint8_t*>(codes);
  Decoded<kType> out;
  if constexpr (kType == SG_E4M3 || kType == SG_E4M3_FNUZ || kType == SG_E5M2) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; i += 2) {
      const uint8_t* q = p + i * kLanes;
      words_to_float(kType == SG_E4M3        ? e4m3_words(sign_extend_words(q))
                     : kType == SG_E4M3_FNUZ ? e4m3_fnuz_words(sign_extend_words(q))
                                             : high_byte_words(q),
                     out.v + i);
    }
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      const uint8_t* q = p + i * kLanes * storage_bytes(kType);
      if constexpr (is_4bit(kType)) {
        const I pair = load_u8(q);
        out.v[i] = nibble_to_float<kType>(pair);
        out.v[kVecs + i] = nibble_to_float<kType>(ishr<4>(pair));
      } else if constexpr (kType == SG_F32) {
        out.v[i] = as_float(iload(q));
      } else if constexpr (kType == SG_BF16) {
        out.v[i] = as_float(ishl<16>(load_u16(q)));
      } else if constexpr (kType == SG_F16) {
        out.v[i] = load_f16(q);
      } else if constexpr (kType == SG_INT8) {
        out.v[i] = to_float(load_i8(q));
      } else if constexpr (kType == SG_E8M0) {
        // 2^(b-127): b is the exponent field; 0 is the subnormal 2^-127, 255 a NaN.
        const I b = load_u8(q);
        const I field = ior(ishl<23>(b), select(iequal(b, iset1(255)), iset1(0x400000), iset1(0)));
        out.v[i] = as_float(select(iequal(b, iset1(0)), iset1(0x400000), field));
      } else {
        static_assert(kType == SG_E5M2_FNUZ, "no such operand type");
        const I b = load_i8(q);
        const I value = ior(ishl<21>(iand(b, iset1(0x7f))), iand(b, iset1(INT32_MIN)));
        out.v[i] = as_float(select(iequal(b, iset1(-128)), iset1(0x7fc00000), value));
      }
    }
  }
  return out;
}

// Run-time choice, outside hot loops: 32 storage elements to 32 f32 (4-bit types: 64, the 32 even k first),
// decode_factor included.
using DecodeGroup = void (*)(const void* codes, float* out);

template <int kType>
inline void decode_group_to(const void* codes, float* out) {
  const Decoded<kType> x = decode_group<kType>(codes);
  constexpr int kCount = is_4bit(kType) ? 2 * kVecs : kVecs;
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    store(out + i * kLanes, decode_factor(kType) == 1.0f ? x.v[i] : mul(x.v[i], set1(decode_factor(kType))));
  }
}

// Null for a type that is neither an operand nor a scale type.
inline DecodeGroup find_decode_group(int type) {
  switch (type) {
    case SG_F32:
      return &decode_group_to<SG_F32>;
    case SG_F16:
      return &decode_group_to<SG_F16>;
    case SG_BF16:
      return &decode_group_to<SG_BF16>;
    case SG_E4M3:
      return &decode_group_to<SG_E4M3>;
    case SG_E4M3_FNUZ:
      return &decode_group_to<SG_E4M3_FNUZ>;
    case SG_E5M2:
      return &decode_group_to<SG_E5M2>;
    case SG_E5M2_FNUZ:
      return &decode_group_to<SG_E5M2_FNUZ>;
    case SG_E2M1:
      return &decode_group_to<SG_E2M1>;
    case SG_E8M0:
      return &decode_group_to<SG_E8M0>;
    case SG_INT8:
      return &decode_group_to<SG_INT8>;
    case SG_INT4:
      return &decode_group_to<SG_INT4>;
    case SG_UINT4:
      return &decode_group_to<SG_UINT4>;
    default:
      return nullptr;
  }
}

// Element `index` of a scale, bias or C array (f32, f16, bf16, e8m0, e4m3 and the other 8-bit types), as f32.
// Reads exactly that element.
inline float load_element(const void* data, int64_t index, int type) {
  alignas(64) uint8_t group[group_bytes(SG_F32)] = {};
  alignas(64) float out[2 * kGroup];
  const uint8_t* p = static_cast<const uint8_t*>(data) + index * storage_bytes(type);
  switch (type) {
    case SG_F32: {
      float x;
      __builtin_memcpy(&x, p, 4);
      return x;
    }
    case SG_BF16: {
      uint16_t x;
      __builtin_memcpy(&x, p, 2);
      return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(x << 16)));
    }
    case SG_F16: {
      uint16_t x;
      __builtin_memcpy(&x, p, 2);
      return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(x)));
    }
    case SG_E8M0: {
      const uint32_t bits = *p == 0 ? 0x400000u : *p == 255 ? 0x7fc00000u : static_cast<uint32_t>(*p) << 23;
      return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
    }
    case SG_INT8:
      return static_cast<float>(static_cast<int8_t>(*p));
    default:
      group[0] = *p;
      find_decode_group(type)(group, out);
      return out[0];
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_DECODE_H_
