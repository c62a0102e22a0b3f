// Activations on f32 vectors, accurate to a few units in the last place, without libm.
//
//   exp_split(hi, lo) = e^(hi+lo): n = round((hi+lo) log2 e), r = hi - n ln2 - ... in two pieces, Taylor to
//   r^7
//     (|r| <= ln2/2, so the truncation is (ln2/2)^8/8! = 5e-9 relative), times 2^n in two halves so that
//     subnormal results and overflow to infinity come out right. Relative error about 1.5 ulp.
//   GELU(erf) = x Phi(x), Phi(x) = erfc(-x/sqrt2)/2. With z = |x|/sqrt2 and t = 1/(1 + z/2),
//     erfc(z) = t exp(-z^2 + p(t)), p a polynomial of degree 10 interpolated at Chebyshev nodes of
//     t in [0.164, 1] (|error| 1e-8, which is the relative error of erfc), written about t = 149/256. z^2 is
//     kept in two pieces. So negative tails keep their relative accuracy.
//   GELU(tanh) = x (1 + tanh u)/2 = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3).
//   SiLU = x / (1 + e^-x).
// NaN in, NaN out. Where 1 + e^-x overflows (|result| < 2^-120) SiLU and GELU(tanh) give 0. Results do not
// depend on the ISA. Measured worst error: 3 ulp (tests/kernels/f32_codes_test.cc).
#ifndef SCALEGEMM_KERNELS_CPU_ACTIVATION_H_
#define SCALEGEMM_KERNELS_CPU_ACTIVATION_H_

#include "cpu/simd.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

inline F exp_split(F hi, F lo) {
  // Outside this range the result is 0 or infinity anyway; max/min keep a NaN in their second operand.
  hi = min(set1(100.0f), max(set1(-120.0f), hi));
  const F n = round_even(mul(add(hi, lo), set1(1.44269504f)));
  F r = fma(n, set1(-0.693359375f), hi);  // ln 2 = 0.693359375 - 2.12194440e-4; the first has 9 bits
  r = add(r, fma(n, set1(2.12194440e-4f), lo));
  F p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  const I whole = to_int(n);
  const I half = isar<1>(whole);
  const F first = as_float(ishl<23>(iadd(half, iset1(127))));
  const F second = as_float(ishl<23>(iadd(isub(whole, half), iset1(127))));
  return mul(mul(p, first), second);
}

inline F exp(F x) {
  return exp_split(x, zero());
}

inline F gelu_erf(F x) {
  constexpr float kCoefficients[] = {-0.56037740633f,  1.3684987952f,  0.09228199375f,   -0.40721183987f,
                                     -0.036582455107f, 0.29560487235f, -0.050957815532f, -0.24644545334f,
                                     0.14416703115f,   0.14652162743f, -0.15140036698f};
  const F magnitude = as_float(iand(as_int(x), iset1(INT32_MAX)));
  // Past z = 10.2 erfc is below the smallest f32; the bound keeps the polynomial inside its interval.
  const F z = min(set1(10.2f), mul(magnitude, set1(0.70710678118654752f)));
  const F t = div(set1(1.0f), fma(z, set1(0.5f), set1(1.0f)));
  const F s = sub(t, set1(149.0f / 256));
  F p = set1(kCoefficients[10]);
#pragma GCC unroll 10
  for (int i = 9; i >= 0; --i) {
    p = fma(p, s, set1(kCoefficients[i]));
  }
  // z^2 to twice the precision; x^2/2 rather than z^2, as z carries the rounding of the product above.
  const F x_bounded = min(set1(14.5f), magnitude);
  const F half_x = mul(x_bounded, set1(0.5f));
  const F square = mul(x_bounded, half_x);
  const F rest = fma(x_bounded, half_x, sub(zero(), square));
  const F erfc = mul(t, exp_split(sub(zero(), square), sub(p, rest)));
  const F upper = fma(erfc, set1(-0.5f), set1(1.0f));
  const F lower = mul(erfc, set1(0.5f));
  const F tail = select(less(x, zero()), lower, upper);

  constexpr float kCentre[] = {0.3989422804f,     -0.066490379659f,  0.0099735504698f, -0.001187288744f,
                               0.00011532074573f, -9.2744012622e-6f, 5.3726431647e-7f};
  const F x2 = mul(x, x);
  F q = set1(kCentre[6]);
#pragma GCC unroll 6
  for (int i = 5; i >= 0; --i) {
    q = fma(q, x2, set1(kCentre[i]));
  }
  const F phi = select(less(magnitude, set1(1.0f)), fma(x, q, set1(0.5f)), tail);
  return mul(x, select(is_nan(x), x, phi));
}

inline F gelu_tanh(F x) {
  // 2u = x (c1 + c3 x^2) as hi + lo, each constant and product with its rest, because e^(2u) turns an
  // absolute error of 2u into a relative one. Past |x| = 15 the result is x or 0.
  const F c1 = set1(0x1.988454p+0f), c1_rest = set1(-0x1.857936p-25f);
  const F c3 = set1(0x1.2444f2p-4f), c3_rest = set1(0x1.49b16ap-29f);
  const F v = min(set1(15.0f), max(set1(-15.0f), x));
  const F square = mul(v, v);
  const F square_rest = fma(v, v, sub(zero(), square));
  const F cubic = mul(square, c3);
  const F cubic_rest = add(fma(square, c3, sub(zero(), cubic)), fma(square, c3_rest, mul(square_rest, c3)));
  const F sum = add(cubic, c1);
  const F back = sub(sum, cubic);
  const F sum_rest = add(sub(cubic, sub(sum, back)), sub(c1, back));
  const F hi = mul(v, sum);
  const F lo = fma(v, add(add(sum_rest, c1_rest), cubic_rest), fma(v, sum, sub(zero(), hi)));
  return div(x, add(set1(1.0f), exp_split(sub(zero(), hi), sub(zero(), lo))));
}

inline F silu(F x) {
  return div(x, add(set1(1.0f), exp(sub(zero(), x))));
}

inline F activate(F x, int activation) {
  switch (activation) {
    case SG_ACT_RELU:
      return max(zero(), x);
    case SG_ACT_GELU_TANH:
      return gelu_tanh(x);
    case SG_ACT_GELU_ERF:
      return gelu_erf(x);
    case SG_ACT_SILU:
      return silu(x);
    default:
      return x;
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_ACTIVATION_H_
