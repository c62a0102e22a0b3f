// From f32 sums to D, one number at a time, every type and option at run time: what the mma family and the
// fused epilogues of the TMA families share.
//
//   D = convert(clamp(act(alpha * sum + beta * C + bias)))
//
// In f32 and in the order of the CPU kernels: alpha * sum; fma(beta, C, .) unless beta is 0 (then C is not
// read); + bias. NaN passes through all of it. f32, f16 and bf16 overflow to infinity, the 8-bit floats
// saturate (docs/numerics.md).
#pragma once
#include "cuda/abi.h"
#include "cuda/ptx.cuh"

namespace scalegemm::cuda {

constexpr u32 kQuietNan = 0x7fc00000u;

// Bytes of one storage element.
SG_CONSTEXPR u32 storage_bytes(i32 type) {
  return type == SG_F32 || type == SG_INT32 ? 4 : type == SG_F16 || type == SG_BF16 ? 2 : 1;
}

// ---- one code to f32 ----
SG_DEVICE float f16_to_float(u32 bits) {
  float v;
  asm("{\n.reg .b16 h;\ncvt.u16.u32 h, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(v) : "r"(bits));
  return v;
}
// f32 whose exponent and mantissa fields hold those of an 8-bit float, so that subnormals are subnormals, and
// a power of two that rebases the exponent: exact.
SG_DEVICE float float8_to_float(u32 code, u32 mantissa_shift, float factor) {
  const u32 bits = (code & 0x7f) << mantissa_shift | (code & 0x80) << 24;
  return __uint_as_float(bits) * factor;
}
// The value of a code of any type that is an operand, scale, zero point, bias or C. 4-bit codes: one a byte,
// in the low nibble.
SG_DEVICE float decode_number(u32 code, i32 type) {
  switch (type) {
    case SG_F32:
      return __uint_as_float(code);
    case SG_F16:
      return f16_to_float(code);
    case SG_BF16:
      return __uint_as_float(code << 16);
    case SG_E8M0:  // 0 is the subnormal 2^-127
      return __uint_as_float(code == 0 ? 0x400000u : code == 255 ? kQuietNan : code << 23);
    case SG_E4M3:
      return (code & 0x7f) == 0x7f ? __uint_as_float(kQuietNan) : float8_to_float(code, 20, 0x1p120f);
    case SG_E4M3_FNUZ:
      return code == 0x80 ? __uint_as_float(kQuietNan) : float8_to_float(code, 20, 0x1p119f);
    case SG_E5M2:
      return f16_to_float(code << 8);
    case SG_E5M2_FNUZ:
      return code == 0x80 ? __uint_as_float(kQuietNan) : float8_to_float(code, 21, 0x1p111f);
    case SG_E2M1:
      return float8_to_float((code & 7) | (code & 8) << 4, 22, 0x1p126f);
    case SG_INT8:
      return static_cast<float>(static_cast<signed char>(code));
    case SG_INT4:
      return static_cast<float>(static_cast<i32>((code & 15) ^ 8) - 8);
    case SG_UINT4:
      return static_cast<float>(code & 15);
    default:
      return static_cast<float>(static_cast<i32>(code));
  }
}
SG_DEVICE u32 load_code(const void* address, u32 bytes) {
  if (bytes == 4)
    return *static_cast<const u32*>(address);
  if (bytes == 2)
    return *static_cast<const u16*>(address);
  return *static_cast<const u8*>(address);
}
// Element `index` of an array, as f32; reads that element alone.
SG_DEVICE float load_number(const void* data, i64 index, i32 type) {
  const u32 bytes = storage_bytes(type);
  return decode_number(load_code(static_cast<const u8*>(data) + index * static_cast<i64>(bytes), bytes),
                       type);
}

// ---- f32 to one code ----
// A normal |x| has its fraction rounded by adding half an ulp minus one plus the last kept bit, then its
// exponent rebased; below 2^(1-bias), adding 2^(24-bias-mantissa) makes the f32 adder round to the format's
// subnormal spacing, and the low bits of the sum are the code.
template <u32 kMantissa, u32 kBias, bool kFnuz>
SG_DEVICE u32 encode_float8(float x, float largest) {
  constexpr u32 kShift = 23 - kMantissa;
  const u32 all = __float_as_uint(x), sign = all >> 24 & 0x80, magnitude = all & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return kFnuz ? 0x80 : sign | 0x7f;
  const float a = __uint_as_float(magnitude) < largest ? __uint_as_float(magnitude) : largest;
  const u32 bits = __float_as_uint(a);
  const u32 rounded = (bits + ((1u << (kShift - 1)) - 1) + (bits >> kShift & 1)) >> kShift;
  const u32 normal = rounded - ((127 - kBias) << kMantissa);
  const float magic = __uint_as_float((127 + 24 - kBias - kMantissa) << 23);
  const u32 subnormal = __float_as_uint(__fadd_rn(a, magic)) - __float_as_uint(magic);
  const u32 code = bits < (127 + 1 - kBias) << 23 ? subnormal : normal;
  return kFnuz && code == 0 ? 0 : code | sign;
}
// Two f32 to e4m3 or e5m2, saturating, in the low half; a NaN becomes one.
template <bool kE4m3>
SG_DEVICE u32 pack_float8(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  u32 r;
  if constexpr (kE4m3)
    asm("{\n.reg .b16 h;\ncvt.rn.satfinite.e4m3x2.f32 h, %1, %2;\ncvt.u32.u16 %0, h;\n}"
        : "=r"(r)
        : "f"(high), "f"(low));
  else
    asm("{\n.reg .b16 h;\ncvt.rn.satfinite.e5m2x2.f32 h, %1, %2;\ncvt.u32.u16 %0, h;\n}"
        : "=r"(r)
        : "f"(high), "f"(low));
  return r;
#else
  if constexpr (kE4m3)
    return encode_float8<3, 7, false>(low, 448.0f) | encode_float8<3, 7, false>(high, 448.0f) << 8;
  else
    return encode_float8<2, 15, false>(low, 57344.0f) | encode_float8<2, 15, false>(high, 57344.0f) << 8;
#endif
}
// The code of x in an output type, in the low bits.
SG_DEVICE u32 encode_number(float x, i32 type) {
  switch (type) {
    case SG_F16:
      return pack_f16(x, 0.0f) & 0xffff;
    case SG_BF16:
      return pack_bf16(x, 0.0f) & 0xffff;
    case SG_E4M3:
      return encode_float8<3, 7, false>(x, 448.0f);
    case SG_E4M3_FNUZ:
      return encode_float8<3, 8, true>(x, 240.0f);
    case SG_E5M2:
      return encode_float8<2, 15, false>(x, 57344.0f);
    case SG_E5M2_FNUZ:
      return encode_float8<2, 16, true>(x, 57344.0f);
    case SG_INT32:
      return static_cast<u32>(__float2int_rn(x));
    default:
      return __float_as_uint(x);
  }
}
SG_DEVICE void store_code(void* address, u32 code, u32 bytes) {
  if (bytes == 4)
    *static_cast<u32*>(address) = code;
  else if (bytes == 2)
    *static_cast<u16*>(address) = static_cast<u16>(code);
  else
    *static_cast<u8*>(address) = static_cast<u8>(code);
}

// ---- activations: the polynomials of kernels/cpu/activation.h, where they are derived ----
SG_DEVICE float exp_split(float hi, float lo) {
  // Outside this range the result is 0 or infinity anyway. A NaN fails both comparisons and stays.
  hi = hi < -120.0f ? -120.0f : hi;
  hi = hi > 100.0f ? 100.0f : hi;
  const float n = rintf(__fmul_rn(__fadd_rn(hi, lo), 1.44269504f));
  float r = __fmaf_rn(n, -0.693359375f, hi);
  r = __fadd_rn(r, __fmaf_rn(n, 2.12194440e-4f, lo));
  float p = 1.0f / 5040;
  p = __fmaf_rn(p, r, 1.0f / 720);
  p = __fmaf_rn(p, r, 1.0f / 120);
  p = __fmaf_rn(p, r, 1.0f / 24);
  p = __fmaf_rn(p, r, 1.0f / 6);
  p = __fmaf_rn(p, r, 0.5f);
  p = __fmaf_rn(p, r, 1.0f);
  p = __fmaf_rn(p, r, 1.0f);
  const i32 whole = static_cast<i32>(n), half = whole >> 1;
  const float first = __uint_as_float(static_cast<u32>(half + 127) << 23);
  const float second = __uint_as_float(static_cast<u32>(whole - half + 127) << 23);
  return __fmul_rn(__fmul_rn(p, first), second);
}

SG_DEVICE float gelu_erf(float x) {
  constexpr float kCoefficients[] = {-0.56037740633f,  1.3684987952f,  0.09228199375f,   -0.40721183987f,
                                     -0.036582455107f, 0.29560487235f, -0.050957815532f, -0.24644545334f,
                                     0.14416703115f,   0.14652162743f, -0.15140036698f};
  constexpr float kCentre[] = {0.3989422804f,     -0.066490379659f,  0.0099735504698f, -0.001187288744f,
                               0.00011532074573f, -9.2744012622e-6f, 5.3726431647e-7f};
  if (x != x)
    return x;
  const float magnitude = fabsf(x);
  float phi;
  if (magnitude < 1.0f) {
    const float x2 = __fmul_rn(x, x);
    float q = kCentre[6];
#pragma unroll
    for (i32 i = 5; i >= 0; --i)
      q = __fmaf_rn(q, x2, kCentre[i]);
    phi = __fmaf_rn(x, q, 0.5f);
  } else {
    const float z = fminf(10.2f, __fmul_rn(magnitude, 0.70710678118654752f));
    const float t = __fdiv_rn(1.0f, __fmaf_rn(z, 0.5f, 1.0f)), s = __fsub_rn(t, 149.0f / 256);
    float p = kCoefficients[10];
#pragma unroll
    for (i32 i = 9; i >= 0; --i)
      p = __fmaf_rn(p, s, kCoefficients[i]);
    const float bounded = fminf(14.5f, magnitude), half_x = __fmul_rn(bounded, 0.5f);
    const float square = __fmul_rn(bounded, half_x), rest = __fmaf_rn(bounded, half_x, -square);
    const float erfc = __fmul_rn(t, exp_split(-square, __fsub_rn(p, rest)));
    phi = x < 0.0f ? __fmul_rn(erfc, 0.5f) : __fmaf_rn(erfc, -0.5f, 1.0f);
  }
  return __fmul_rn(x, phi);
}

SG_DEVICE float gelu_tanh(float x) {
  const float c1 = 0x1.988454p+0f, c1_rest = -0x1.857936p-25f;
  const float c3 = 0x1.2444f2p-4f, c3_rest = 0x1.49b16ap-29f;
  float v = x < -15.0f ? -15.0f : x;
  v = v > 15.0f ? 15.0f : v;
  const float square = __fmul_rn(v, v), square_rest = __fmaf_rn(v, v, -square);
  const float cubic = __fmul_rn(square, c3);
  const float cubic_rest =
      __fadd_rn(__fmaf_rn(square, c3, -cubic), __fmaf_rn(square, c3_rest, __fmul_rn(square_rest, c3)));
  const float sum = __fadd_rn(cubic, c1), back = __fsub_rn(sum, cubic);
  const float sum_rest = __fadd_rn(__fsub_rn(cubic, __fsub_rn(sum, back)), __fsub_rn(c1, back));
  const float hi = __fmul_rn(v, sum);
  const float lo = __fmaf_rn(v, __fadd_rn(__fadd_rn(sum_rest, c1_rest), cubic_rest), __fmaf_rn(v, sum, -hi));
  return __fdiv_rn(x, __fadd_rn(1.0f, exp_split(-hi, -lo)));
}

SG_DEVICE float activate(float x, i32 activation) {
  switch (activation) {
    case SG_ACT_RELU:
      return x < 0.0f ? 0.0f : x;
    case SG_ACT_GELU_TANH:
      return gelu_tanh(x);
    case SG_ACT_GELU_ERF:
      return gelu_erf(x);
    case SG_ACT_SILU:
      return __fdiv_rn(x, __fadd_rn(1.0f, exp_split(-x, 0.0f)));
    default:
      return x;
  }
}

// ---- the epilogue of one element ----
struct Finish {
  const void* c;  // element (m, n) at m * c_stride_m + n * c_stride_n; null: none (or beta 0)
  const void* bias;
  i64 c_stride_m, c_stride_n;
  i32 c_dtype, bias_dtype, activation;
  float alpha, beta, clamp_min, clamp_max;

  SG_DEVICE static Finish of(const SgGemm& g, u32 batch) {
    Finish f = {nullptr,      g.bias,  g.c_stride_m, g.c_stride_n, g.c_dtype,  g.bias_dtype,
                g.activation, g.alpha, g.beta,       g.clamp_min,  g.clamp_max};
    if (g.c != nullptr && g.beta != 0.0f)
      f.c = static_cast<const u8*>(g.c) +
            static_cast<i64>(batch) * g.c_stride_batch * static_cast<i64>(storage_bytes(g.c_dtype));
    return f;
  }
  // Nothing but alpha.
  SG_DEVICE bool is_plain() const {
    const float infinity = __uint_as_float(0x7f800000u);
    return c == nullptr && bias == nullptr && activation == SG_ACT_NONE && clamp_min == -infinity &&
           clamp_max == infinity;
  }
  // `sum` has all its scales.
  SG_DEVICE float operator()(float sum, u32 m, u32 n) const {
    float t = __fmul_rn(alpha, sum);
    if (c != nullptr)
      t = __fmaf_rn(beta, load_number(c, m * c_stride_m + n * c_stride_n, c_dtype), t);
    if (bias != nullptr)
      t = __fadd_rn(t, load_number(bias, n, bias_dtype));
    return shape(t);
  }
  // Activation and clamp. A NaN fails every comparison and stays.
  SG_DEVICE float shape(float t) const {
    t = activate(t, activation);
    t = t < clamp_min ? clamp_min : t;
    return t > clamp_max ? clamp_max : t;
  }
};

// The same as calls: where no sums are live in registers, one copy of the code serves every element.
inline __device__ __noinline__ float finish_element(const SgGemm& g, u32 batch, float sum, u32 m, u32 n) {
  return Finish::of(g, batch)(sum, m, n);
}
inline __device__ __noinline__ u32 encode_element(float x, i32 type) {
  return encode_number(x, type);
}

}  // namespace scalegemm::cuda
