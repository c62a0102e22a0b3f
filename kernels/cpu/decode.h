// Codes to f32: decode<type, count>(p) turns count*kLanes storage elements that lie side by side into f32,
// exactly, for every code: subnormals are kept, NaN codes give NaN.
//
// For the 4-bit types one storage element is a byte with the codes of k (low nibble) and k + 1 (high nibble):
// the result holds `count` vectors for k, then `count` for k + 1.
//
// How each type is decoded (op counts are for AVX-512 and 32 values):
//   e4m3        byte b sign-extended to 16 bits and shifted left by 7 is f16 with the sign twice (bits 15,
//   14)
//               and an exponent 8 too small. Adding 0x80 carries into bit 14 exactly when b is 0x7f or 0xff,
//               the NaN codes; that carry, xor-ed over the spare sign bit, makes an f16 NaN and else clears
//               the bit. 2 widen + 6 ops of 256 bits + 2 cvtph2ps + 2 multiplications by 2^8.
//   e4m3_fnuz   the same with 2^7; its NaN is 0x80 alone, compared for.
//   e5m2        byte << 8 is f16.
//   e5m2_fnuz   the exponent field, 5 bits, dropped into f32's (so subnormals are f32 subnormals), times
//   2^111
//               (kFactor): the largest exponent is a number here and infinity in f16.
//   e2m1        16-entry table by vpermps (it reads only the low 4 bits of an index, so the low nibble needs
//   no
//               mask); AVX2 permutes the 8 magnitudes and moves the sign bit.
//   int4, uint4 the nibble is dropped into the low mantissa bits of 2^23 (the high nibble, unshifted, of
//   2^19) by one
//               logic op, and 2^23 (int4: + 8, its sign bit flipped) subtracted: no shuffles, no shifts.
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

template <int kType, int kCount>
struct Decoded {
  F v[is_4bit(kType) ? 2 * kCount : kCount];
};

// kLanes bytes as 16-bit words that hold f16 numbers.
#if SG_CPU_AVX512
using Words = __m256i;
SG_INLINE Words sign_extend_words(const void* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SG_INLINE Words high_byte_words(const void* p) {
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 8);
}
SG_INLINE F words_to_float(Words w) {
  return _mm512_cvtph_ps(w);
}
SG_INLINE Words e4m3_words(Words b) {
  const Words s = _mm256_slli_epi16(b, 7);
  const Words carry = _mm256_add_epi16(s, _mm256_set1_epi16(0x80));
  // s ^ (carry & 0x4000)
  return _mm256_ternarylogic_epi32(s, carry, _mm256_set1_epi16(0x4000), 0x78);
}
SG_INLINE Words e4m3_fnuz_words(Words b) {
  const Words s = _mm256_slli_epi16(b, 7);
  const Words nan = _mm256_cmpeq_epi16(b, _mm256_set1_epi16(-128));
  return _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi16(static_cast<int16_t>(0xbfff))), nan);
}
#else
using Words = __m128i;
SG_INLINE Words sign_extend_words(const void* p) {
  return _mm_cvtepi8_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SG_INLINE Words high_byte_words(const void* p) {
  return _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SG_INLINE F words_to_float(Words w) {
  return _mm256_cvtph_ps(w);
}
SG_INLINE Words e4m3_words(Words b) {
  const Words s = _mm_slli_epi16(b, 7);
  const Words carry = _mm_add_epi16(s, _mm_set1_epi16(0x80));
  return _mm_xor_si128(s, _mm_and_si128(carry, _mm_set1_epi16(0x4000)));
}
SG_INLINE Words e4m3_fnuz_words(Words b) {
  const Words s = _mm_slli_epi16(b, 7);
  const Words nan = _mm_cmpeq_epi16(b, _mm_set1_epi16(-128));
  return _mm_or_si128(_mm_and_si128(s, _mm_set1_epi16(static_cast<int16_t>(0xbfff))), nan);
}
#endif

// (x & mask) ^ bits.
SG_INLINE I mask_xor(I x, I mask, I bits) {
#if SG_CPU_AVX512
  return _mm512_ternarylogic_epi32(x, mask, bits, 0x6a);
#else
  return ixor(iand(x, mask), bits);
#endif
}

// The low (kHigh = 0) or high nibble of every lane's byte, as f32.
template <int kType, int kHigh>
SG_INLINE F nibble_to_float(I byte) {
  if constexpr (kType == SG_E2M1) {
    const I code = kHigh ? ishr<4>(byte) : byte;
#if SG_CPU_AVX512
    const F table = _mm512_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6);
    return _mm512_permutexvar_ps(code, table);
#else
    const F magnitude = _mm256_permutevar8x32_ps(_mm256_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6), code);
    return as_float(ixor(as_int(magnitude), iand(ishl<28>(code), iset1(INT32_MIN))));
#endif
  } else {
    // In 2^23 (high nibble: 2^19) the nibble's lowest bit counts one.
    constexpr float kBase = kHigh ? 0x1p19f : 0x1p23f;
    constexpr int kBits = (kHigh ? 0x49000000 : 0x4b000000) | (kType == SG_INT4 ? (kHigh ? 0x80 : 8) : 0);
    const F raised = as_float(mask_xor(byte, iset1(kHigh ? 0xf0 : 15), iset1(kBits)));
    return sub(raised, set1(kType == SG_INT4 ? kBase + 8 : kBase));
  }
}

template <int kType, int kCount>
SG_INLINE Decoded<kType, kCount> decode(const void* codes) {
  const uint8_t* p = static_cast<const uint8_t*>(codes);
  Decoded<kType, kCount> out;
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    const uint8_t* q = p + i * kLanes * storage_bytes(kType);
    if constexpr (kType == SG_E4M3) {
      out.v[i] = mul(words_to_float(e4m3_words(sign_extend_words(q))), set1(0x1p8f));
    } else if constexpr (kType == SG_E4M3_FNUZ) {
      out.v[i] = mul(words_to_float(e4m3_fnuz_words(sign_extend_words(q))), set1(0x1p7f));
    } else if constexpr (kType == SG_E5M2) {
      out.v[i] = words_to_float(high_byte_words(q));
    } else if constexpr (is_4bit(kType)) {
      const I pair = load_u8(q);
      out.v[i] = nibble_to_float<kType, 0>(pair);
      out.v[kCount + i] = nibble_to_float<kType, 1>(pair);
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
      const I x = imax(ishl<23>(b), iset1(0x400000));
      out.v[i] = as_float(select(iequal(b, iset1(255)), iset1(0x7fc00000), x));
    } else {
      static_assert(kType == SG_E5M2_FNUZ, "no such operand type");
      const I b = load_i8(q);
      const I value = ior(ishl<21>(iand(b, iset1(0x7f))), iand(b, iset1(INT32_MIN)));
      const F exact = mul(as_float(value), set1(0x1p111f));
      out.v[i] = select(iequal(b, iset1(-128)), as_float(iset1(0x7fc00000)), exact);
    }
  }
  return out;
}

#if SG_CPU_AVX512
// 32 bytes of e2m1 pairs by a table of bf16: one 16-bit permute serves 32 codes. v[0], v[1]: k of the even
// and the odd columns, v[2], v[3]: k + 1 of them; interleave_columns puts a pair of such vectors in order.
SG_INLINE Decoded<SG_E2M1, 2> decode_e2m1_split(const void* codes) {
  const __m512i table = _mm512_broadcast_i64x4(_mm256_setr_epi16(
      0, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, static_cast<int16_t>(0x8000),
      static_cast<int16_t>(0xbf00), static_cast<int16_t>(0xbf80), static_cast<int16_t>(0xbfc0),
      static_cast<int16_t>(0xc000), static_cast<int16_t>(0xc040), static_cast<int16_t>(0xc080),
      static_cast<int16_t>(0xc0c0)));
  const I pair = _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(codes)));
  // An index has 5 bits; the table repeats after 16, so the fifth does not matter.
  const I low = _mm512_permutexvar_epi16(pair, table);
  const I high = _mm512_permutexvar_epi16(_mm512_srli_epi16(pair, 4), table);
  const I odd = iset1(static_cast<int32_t>(0xffff0000));
  return {{as_float(ishl<16>(low)), as_float(iand(low, odd)), as_float(ishl<16>(high)),
           as_float(iand(high, odd))}};
}
SG_INLINE void interleave_columns(F& even, F& odd) {
  const I first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const F a = _mm512_permutex2var_ps(even, first, odd);
  odd = _mm512_permutex2var_ps(even, iadd(first, iset1(8)), odd);
  even = a;
}
#endif

// Run-time choice, outside hot loops: `groups` x 32 storage elements side by side to f32 (4-bit types: 64
// values a group, the 32 even k first), times `factor`.
using DecodeRun = void (*)(const void* codes, int64_t groups, float factor, float* out);

template <int kType>
inline void decode_run(const void* codes, int64_t groups, float factor, float* out) {
  constexpr int kCount = is_4bit(kType) ? 2 * kVecs : kVecs;
  const uint8_t* p = static_cast<const uint8_t*>(codes);
  const F scale = set1(factor);
  for (int64_t g = 0; g < groups; ++g, p += group_bytes(kType), out += kCount * kLanes) {
    const auto x = decode<kType, kVecs>(p);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      store(out + i * kLanes, mul(x.v[i], scale));
    }
  }
}

// Null for a type that is neither an operand nor a scale type.
inline DecodeRun find_decode_run(int type) {
  switch (type) {
    case SG_F32:
      return &decode_run<SG_F32>;
    case SG_F16:
      return &decode_run<SG_F16>;
    case SG_BF16:
      return &decode_run<SG_BF16>;
    case SG_E4M3:
      return &decode_run<SG_E4M3>;
    case SG_E4M3_FNUZ:
      return &decode_run<SG_E4M3_FNUZ>;
    case SG_E5M2:
      return &decode_run<SG_E5M2>;
    case SG_E5M2_FNUZ:
      return &decode_run<SG_E5M2_FNUZ>;
    case SG_E2M1:
      return &decode_run<SG_E2M1>;
    case SG_E8M0:
      return &decode_run<SG_E8M0>;
    case SG_INT8:
      return &decode_run<SG_INT8>;
    case SG_INT4:
      return &decode_run<SG_INT4>;
    case SG_UINT4:
      return &decode_run<SG_UINT4>;
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
      find_decode_run(type)(group, 1, 1.0f, out);
      return out[0];
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_DECODE_H_
