// f32 to output types, rounded once to nearest even: encode_vector<type>(x, p) stores kLanes elements at p.
//
//   bf16, f16    IEEE: past the largest finite value comes infinity; NaN stays NaN
//   e4m3, e5m2 and the fnuz flavours   saturating: |x| past the largest finite value (infinity too) gives it,
//                with the sign of x; NaN gives the NaN code; fnuz has no -0, so that becomes 0
//   int32        nearest even; callers use it only where the sums are exact
//
// 8-bit floats in integer arithmetic, for a format with m mantissa bits and bias b: a normal |x| has its f32
// fraction rounded to m bits by adding half an ulp minus one plus the last kept bit, and its exponent
// rebased; below 2^(1-b) adding 2^(23+1-b-m) makes the f32 adder itself round to the format's subnormal
// spacing, and the low bits of the sum are the code (its carry into the first normal code included).
#ifndef SCALEGEMM_KERNELS_CPU_ENCODE_H_
#define SCALEGEMM_KERNELS_CPU_ENCODE_H_

#include "cpu/decode.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

struct Float8Format {
  int mantissa_bits;
  int bias;
  float max_finite;
  int nan_code;  // with the sign bit, where the format has one NaN
  int fnuz;
};

constexpr Float8Format float8_format(int type) {
  switch (type) {
    case SG_E4M3:
      return {3, 7, 448.0f, 0x7f, 0};
    case SG_E4M3_FNUZ:
      return {3, 8, 240.0f, 0x80, 1};
    case SG_E5M2:
      return {2, 15, 57344.0f, 0x7f, 0};
    default:
      return {2, 16, 57344.0f, 0x80, 1};
  }
}

// 2^e for -126 <= e <= 127.
constexpr float power_of_two(int e) {
  float x = 1.0f;
  for (int i = 0; i < (e < 0 ? -e : e); ++i) {
    x = e < 0 ? x * 0.5f : x * 2.0f;
  }
  return x;
}

template <int kType>
SG_INLINE I encode_float8(F x) {
  constexpr Float8Format kFormat = float8_format(kType);
  constexpr int kShift = 23 - kFormat.mantissa_bits;
  const I sign = iand(ishr<24>(as_int(x)), iset1(0x80));
  const F a = min(set1(kFormat.max_finite), as_float(iand(as_int(x), iset1(INT32_MAX))));
  const I bits = as_int(a);
  const I last = iand(ishr<kShift>(bits), iset1(1));
  const I rounded = ishr<kShift>(iadd(iadd(bits, iset1((1 << (kShift - 1)) - 1)), last));
  const I normal = isub(rounded, iset1((127 - kFormat.bias) << kFormat.mantissa_bits));
  const F magic = set1(power_of_two(23 + 1 - kFormat.bias - kFormat.mantissa_bits));
  const I subnormal = isub(as_int(add(a, magic)), as_int(magic));
  const I code = select(less(a, set1(power_of_two(1 - kFormat.bias))), subnormal, normal);
  I out = ior(code, sign);
  if constexpr (kFormat.fnuz) {
    out = select(iequal(code, iset1(0)), iset1(0), out);
    return select(is_nan(x), iset1(kFormat.nan_code), out);
  } else {
    return select(is_nan(x), ior(sign, iset1(kFormat.nan_code)), out);
  }
}

template <int kType>
SG_INLINE void encode_vector(F x, void* p) {
  if constexpr (kType == SG_F32) {
    store(static_cast<float*>(p), x);
  } else if constexpr (kType == SG_F16) {
    store_f16(p, x);
  } else if constexpr (kType == SG_BF16) {
    const I bits = as_int(x);
    const I last = iand(ishr<16>(bits), iset1(1));
    const I rounded = ishr<16>(iadd(iadd(bits, iset1(0x7fff)), last));
    const I quiet = ior(ishr<16>(bits), iset1(0x40));
    store_u16(p, select(is_nan(x), quiet, rounded));
  } else if constexpr (kType == SG_INT32) {
    istore(p, to_int(x));
  } else {
    store_u8(p, encode_float8<kType>(x));
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_ENCODE_H_
