// The vector vocabulary of the CPU kernels: one name for each operation on kLanes 32-bit lanes, as AVX-512
// (16 lanes) or AVX2 + FMA + F16C (8 lanes). A kernel body written in these names is compiled once for each
// ISA. Contraction is explicit: a fused multiply-add happens exactly where fma() is written, and because
// every operation here rounds once to nearest even, both ISAs give the same bits.
//
//   F       kLanes f32            I       kLanes int32
//   Mask    one flag a lane       kLanes  16 or 8
//
// Loads and stores take any alignment. Only load_u8/load_i8/load_u16 read fewer than 4*kLanes bytes.
#ifndef SCALEGEMM_KERNELS_CPU_SIMD_H_
#define SCALEGEMM_KERNELS_CPU_SIMD_H_

// GCC 12's own headers read an undefined vector on purpose (GCC PR 105593) and warn about it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#include <stdint.h>

#include "cpu/kernel.h"

#define SG_INLINE inline __attribute__((always_inline))

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

SG_INLINE int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

#if SG_CPU_AVX512

using F = __m512;
using I = __m512i;
using Mask = __mmask16;
constexpr int kLanes = 16;

SG_INLINE F zero() {
  return _mm512_setzero_ps();
}
SG_INLINE F set1(float x) {
  return _mm512_set1_ps(x);
}
SG_INLINE F load(const float* p) {
  return _mm512_loadu_ps(p);
}
SG_INLINE void store(float* p, F x) {
  _mm512_storeu_ps(p, x);
}
SG_INLINE F add(F a, F b) {
  return _mm512_add_ps(a, b);
}
SG_INLINE F sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
SG_INLINE F mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
SG_INLINE F div(F a, F b) {
  return _mm512_div_ps(a, b);
}
SG_INLINE F fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
SG_INLINE F min(F a, F b) {
  return _mm512_min_ps(a, b);
}
SG_INLINE F max(F a, F b) {
  return _mm512_max_ps(a, b);
}
SG_INLINE F round_even(F a) {
  return _mm512_roundscale_ps(a, 0x08);
}

SG_INLINE I iset1(int32_t x) {
  return _mm512_set1_epi32(x);
}
SG_INLINE I iload(const void* p) {
  return _mm512_loadu_si512(p);
}
SG_INLINE void istore(void* p, I x) {
  _mm512_storeu_si512(p, x);
}
SG_INLINE I iadd(I a, I b) {
  return _mm512_add_epi32(a, b);
}
SG_INLINE I isub(I a, I b) {
  return _mm512_sub_epi32(a, b);
}
SG_INLINE I iand(I a, I b) {
  return _mm512_and_si512(a, b);
}
SG_INLINE I ior(I a, I b) {
  return _mm512_or_si512(a, b);
}
SG_INLINE I ixor(I a, I b) {
  return _mm512_xor_si512(a, b);
}
SG_INLINE I imax(I a, I b) {
  return _mm512_max_epi32(a, b);
}
template <int kBits>
SG_INLINE I ishl(I a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
SG_INLINE I ishr(I a) {  // logical
  return _mm512_srli_epi32(a, kBits);
}
template <int kBits>
SG_INLINE I isar(I a) {  // arithmetic
  return _mm512_srai_epi32(a, kBits);
}

SG_INLINE F as_float(I x) {
  return _mm512_castsi512_ps(x);
}
SG_INLINE I as_int(F x) {
  return _mm512_castps_si512(x);
}
SG_INLINE F to_float(I x) {
  return _mm512_cvtepi32_ps(x);
}
SG_INLINE I to_int(F x) {
  return _mm512_cvtps_epi32(x);
}

SG_INLINE Mask less(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
SG_INLINE Mask is_nan(F a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
SG_INLINE Mask iequal(I a, I b) {
  return _mm512_cmpeq_epi32_mask(a, b);
}
SG_INLINE F select(Mask m, F yes, F no) {
  return _mm512_mask_blend_ps(m, no, yes);
}
SG_INLINE I select(Mask m, I yes, I no) {
  return _mm512_mask_blend_epi32(m, no, yes);
}

SG_INLINE I load_u8(const void* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SG_INLINE I load_i8(const void* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SG_INLINE I load_u16(const void* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
SG_INLINE F load_f16(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}

// The low 8 or 16 bits of every lane.
SG_INLINE void store_u8(void* p, I x) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}
SG_INLINE void store_u16(void* p, I x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x));
}
SG_INLINE void store_f16(void* p, F x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#else  // AVX2

using F = __m256;
using I = __m256i;
using Mask = __m256;
constexpr int kLanes = 8;

SG_INLINE F zero() {
  return _mm256_setzero_ps();
}
SG_INLINE F set1(float x) {
  return _mm256_set1_ps(x);
}
SG_INLINE F load(const float* p) {
  return _mm256_loadu_ps(p);
}
SG_INLINE void store(float* p, F x) {
  _mm256_storeu_ps(p, x);
}
SG_INLINE F add(F a, F b) {
  return _mm256_add_ps(a, b);
}
SG_INLINE F sub(F a, F b) {
  return _mm256_sub_ps(a, b);
}
SG_INLINE F mul(F a, F b) {
  return _mm256_mul_ps(a, b);
}
SG_INLINE F div(F a, F b) {
  return _mm256_div_ps(a, b);
}
SG_INLINE F fma(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}
SG_INLINE F min(F a, F b) {
  return _mm256_min_ps(a, b);
}
SG_INLINE F max(F a, F b) {
  return _mm256_max_ps(a, b);
}
SG_INLINE F round_even(F a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

SG_INLINE I iset1(int32_t x) {
  return _mm256_set1_epi32(x);
}
SG_INLINE I iload(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
SG_INLINE void istore(void* p, I x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
SG_INLINE I iadd(I a, I b) {
  return _mm256_add_epi32(a, b);
}
SG_INLINE I isub(I a, I b) {
  return _mm256_sub_epi32(a, b);
}
SG_INLINE I iand(I a, I b) {
  return _mm256_and_si256(a, b);
}
SG_INLINE I ior(I a, I b) {
  return _mm256_or_si256(a, b);
}
SG_INLINE I ixor(I a, I b) {
  return _mm256_xor_si256(a, b);
}
SG_INLINE I imax(I a, I b) {
  return _mm256_max_epi32(a, b);
}
template <int kBits>
SG_INLINE I ishl(I a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
SG_INLINE I ishr(I a) {  // logical
  return _mm256_srli_epi32(a, kBits);
}
template <int kBits>
SG_INLINE I isar(I a) {  // arithmetic
  return _mm256_srai_epi32(a, kBits);
}

SG_INLINE F as_float(I x) {
  return _mm256_castsi256_ps(x);
}
SG_INLINE I as_int(F x) {
  return _mm256_castps_si256(x);
}
SG_INLINE F to_float(I x) {
  return _mm256_cvtepi32_ps(x);
}
SG_INLINE I to_int(F x) {
  return _mm256_cvtps_epi32(x);
}

SG_INLINE Mask less(F a, F b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
SG_INLINE Mask is_nan(F a) {
  return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}
SG_INLINE Mask iequal(I a, I b) {
  return as_float(_mm256_cmpeq_epi32(a, b));
}
SG_INLINE F select(Mask m, F yes, F no) {
  return _mm256_blendv_ps(no, yes, m);
}
SG_INLINE I select(Mask m, I yes, I no) {
  return as_int(select(m, as_float(yes), as_float(no)));
}

SG_INLINE I load_u8(const void* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SG_INLINE I load_i8(const void* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
SG_INLINE I load_u16(const void* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
SG_INLINE F load_f16(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}

// The low 8 or 16 bits of every lane; the bits above them must be zero.
SG_INLINE void store_u16(void* p, I x) {
  const I both = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(both));
}
SG_INLINE void store_u8(void* p, I x) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
SG_INLINE void store_f16(void* p, F x) {
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#endif

// Both ISAs: a group of 32 columns is kVecs vectors.
constexpr int kGroup = 32;
constexpr int kVecs = kGroup / kLanes;

// Runs a kernel under the default floating-point environment (round to nearest even, subnormals kept,
// exceptions masked), whatever the calling thread has set: the bits of a result depend on nothing outside it.
class DefaultFloatMode {
 public:
  SG_INLINE DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  SG_INLINE ~DefaultFloatMode() { _mm_setcsr(saved_); }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  unsigned saved_;
};

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_SIMD_H_
