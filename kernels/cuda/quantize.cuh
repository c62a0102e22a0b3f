// Quantisers of activations: f32, bf16 or f16 rows to e4m3, e5m2, int8 or e2m1 codes, with one scale a row,
// or for each `group` elements of K; f32 or e8m0 scales. Bit-identical to src/quant.
//
//   amax over the group, as an integer maximum of |bits|: NaN and infinity lie beyond the finite numbers
//   f32 scale   s = amax / largest, rounded; 1 for zeros; the smallest f32 where that rounds to 0
//   e8m0 scale  the power of two of docs/numerics.md, by the rounding mode
//   code        x / s, one correctly rounded f32 division, then rounded to the code type, saturating
//   a group with a NaN or an infinity: scale NaN, codes 0
//
// A thread owns 16 neighbouring elements: 16-byte loads, one 16-byte store (e2m1: 8). Groups: group / 16
// lanes share one and reduce by shuffles; lanes are dealt out over rows and groups, so all of a warp works at
// any K, and where scales lie along rows a warp has groups of neighbouring rows, whose scales leave together.
// Rows: warps_per_row warps share one; a thread keeps its first 4 x 16 elements in registers and reads
// those beyond (K > 16,384 with 8 warps) again, from L2. Budget: 2 to 4 bytes in, 1 out: 3.3 TB/s, 80 % of a
// copy, leave 25 lane-instructions an element at 132 SMs and 1.6 GHz. sm_90a takes 17 (bf16 rows to e4m3), 20
// (bf16 groups to e4m3) and 22 (bf16 groups of 32 to e2m1), 7 of them the division by an f32 scale. Groups:
// 32 bytes in flight a thread, 31 to 35 registers, 48 KB a multiprocessor; rows: 128 bytes, 55 to 58 (f32:
// 98). Limits: rows * ceil(k / group) * (group / 16) < 2^32; group 16, 32, 64, 128 or 256; k even for e2m1.
#pragma once
#include "cuda/finish.cuh"
#include "cuda/quantize_abi.h"

namespace scalegemm::cuda {

struct QuantizeConfig {
  SgDType source = SG_BF16, codes = SG_E4M3;
  u32 group = 128;        // 0: a row
  bool e8m0 = false;      // scales; else f32
  u32 warps_per_row = 8;  // 1, 2, 4 or 8, where group is 0

  SG_CONSTEXPR u32 rows_per_cta() const { return 8 / warps_per_row; }
};

constexpr u32 kQuantizeThreads = 256;
constexpr u32 kPerThread = SG_QUANTIZE_UNIT;  // elements

// What the formulas need to know of a code type: its largest value, as a number and as (1 + fraction / 2^23)
// 2^exponent, and the mantissa bits that the "even" mode rounds to (integers: their exponent).
struct CodeType {
  float largest;
  i32 exponent;
  u32 fraction;
  u32 mantissa_bits;
};
SG_CONSTEXPR CodeType code_type(SgDType t) {
  return t == SG_E4M3   ? CodeType{448.0f, 8, 0x600000, 3}
         : t == SG_E5M2 ? CodeType{57344.0f, 15, 0x600000, 2}
         : t == SG_E2M1 ? CodeType{6.0f, 2, 0x400000, 1}
                        : CodeType{127.0f, 6, 0x7e0000, 6};
}

constexpr u32 kInfinityBits = 0x7f800000u;

// The e8m0 code of a group whose largest magnitude, finite and not 0, has these bits.
template <SgDType kCodes>
SG_DEVICE u32 power_code(u32 amax, u32 rounding) {
  constexpr CodeType kType = code_type(kCodes);
  i32 exponent = static_cast<i32>(amax >> 23) - 127;
  u32 fraction = amax & 0x7fffffu;
  if (amax < 0x800000u) {  // subnormal: shift its first one to where the hidden one is
    const i32 shift = __clz(static_cast<i32>(amax)) - 8;
    exponent = -126 - shift, fraction = amax << shift & 0x7fffffu;
  }
  const bool up = (rounding == 2 && fraction > kType.fraction) ||
                  (rounding == 1 && fraction >= 0x800000u - (0x800000u >> (kType.mantissa_bits + 1)));
  const i32 code = exponent - kType.exponent + (up ? 1 : 0) + 127;
  return static_cast<u32>(code < 0 ? 0 : code > 254 ? 254 : code);
}

// Division by the scale of one group.
template <SgDType kCodes, bool kE8m0>
struct GroupScale {
  u32 code;       // as stored
  float s, r;     // the scale times `near`, its reciprocal rounded to nearest
  float near;     // a power of two that brings the scale away from the ends of f32
  bool poisoned;  // scale NaN, codes 0

  SG_DEVICE GroupScale(u32 amax, u32 rounding) {
    constexpr CodeType kType = code_type(kCodes);
    poisoned = amax >= kInfinityBits;
    if constexpr (kE8m0) {
      code = poisoned ? 255 : amax == 0 ? 127 : power_code<kCodes>(amax, rounding);
      near = 1, s = 0, r = __uint_as_float(code == 254 ? 0x400000u : (254 - code) << 23);  // 2^(127 - code)
    } else {
      const float quotient = __fdiv_rn(__uint_as_float(amax), kType.largest);
      const float scale = amax == 0 ? 1.0f : quotient == 0.0f ? __uint_as_float(1) : quotient;
      code = poisoned ? kQuietNan : __float_as_uint(scale);
      near = scale < 0x1p-80f ? 0x1p100f : scale > 0x1p80f ? 0x1p-60f : 1.0f;
      s = __fmul_rn(scale, near), r = __frcp_rn(s);
    }
  }
  // x / s, correctly rounded. Powers of two: one exact multiplication. Else two steps from x * r, the first
  // to within an ulp, the second, by Markstein's theorem, to the rounded quotient; remainders, and x * near,
  // are exact for every x whose code is not 0. Remainders are taken negative: so a zero keeps its sign.
  SG_DEVICE float divide(float x) const {
    if constexpr (kE8m0)
      return __fmul_rn(x, r);
    const float y = __fmul_rn(x, near);
    const float q0 = __fmul_rn(y, r), q1 = __fmaf_rn(-__fmaf_rn(q0, s, -y), r, q0);
    return __fmaf_rn(-__fmaf_rn(q1, s, -y), r, q1);
  }
};

// What is not 16 aligned bytes, as calls: one copy of the code serves every unit.
// `bytes` of elements of kBytes each, at most 16; the rest of the words is 0.
template <u32 kBytes>
__device__ __noinline__ U32x4 load_some(const u8* p, u32 bytes) {
  u32 words[4] = {0, 0, 0, 0};
#pragma unroll
  for (u32 i = 0; i < 16; i += kBytes)
    if (i < bytes)
      words[i / 4] |= load_code(p + i, kBytes) << (i % 4 * 8);
  return {words[0], words[1], words[2], words[3]};
}
inline __device__ __noinline__ void store_some(u8* to, U32x4 v, u32 bytes) {
  const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (u32 i = 0; i < 16; ++i)
    if (i < bytes)
      to[i] = static_cast<u8>(words[i / 4] >> (i % 4 * 8));
}

// 16 elements of a row, of which `count` exist (the others are 0), as they are in memory.
template <SgDType kSource>
struct SourceUnit {
  static constexpr u32 kBytes = storage_bytes(kSource), kWords = kPerThread * kBytes / 4;
  u32 words[kWords];

  SG_DEVICE void load(const u8* p, u32 count, bool aligned) {
    const bool whole = aligned && count == kPerThread;
    const u32 bytes = count * kBytes;
#pragma unroll
    for (u32 i = 0; i < kWords; i += 4) {
      const U32x4 v = whole           ? reinterpret_cast<const U32x4*>(p)[i / 4]
                      : bytes > 4 * i ? load_some<kBytes>(p + 4 * i, bytes - 4 * i)
                                      : U32x4{0, 0, 0, 0};
      words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
    }
  }
  SG_DEVICE float value(u32 i) const {
    return decode_number(kBytes == 4 ? words[i] : words[i / 2] >> (i % 2 * 16) & 0xffff, kSource);
  }
  SG_DEVICE u32 amax() const {
    u32 largest = 0;
    if constexpr (kBytes == 2) {  // two at once: magnitudes are in the order of their bits
#pragma unroll
      for (u32 i = 0; i < kWords; ++i)
        largest = max_halves(largest, words[i] & 0x7fff7fffu);
      return __float_as_uint(decode_number(max_of(largest & 0xffff, largest >> 16), kSource));
    }
#pragma unroll
    for (u32 i = 0; i < kPerThread; ++i)
      largest = max_of(largest, __float_as_uint(value(i)) & 0x7fffffffu);
    return largest;
  }
};

// Codes of e2m1 count halves up to 2, ones from 2 to 4, twos from 4 on. The f32 adder rounds to each count,
// ties to even, behind a constant whose last place is the step; the count that holds is the least. x is below
// 2^22.
SG_DEVICE u32 encode_e2m1(float x) {
  const float a = fabsf(x);
  const u32 halves = __float_as_uint(__fadd_rn(a, 0x1p22f)) - 0x4a800000u;
  const u32 ones = __float_as_uint(__fadd_rn(a, 0x1p23f + 2)) - 0x4b000000u;  // code 4 is 2
  const u32 twos = __float_as_uint(__fadd_rn(a, 0x1p24f + 8)) - 0x4b800000u;  // code 6 is 4
  return min_of(min_of(halves, ones), min_of(twos, 7)) | (__float_as_uint(x) >> 28 & 8);
}

// The same for two bf16 numbers at once, each first multiplied with the power of two in r: all in one fused
// step, whose product is exact. At 64, 128 and 256 the last place of bf16 is 1/2, 1 and 2. A code in each
// half.
SG_DEVICE u32 encode_e2m1_halves(u32 x, u32 r) {
  const u32 a = x & 0x7fff7fffu;
  const u32 halves = fma_bf16_halves(a, r, 0x42804280u) - 0x42804280u;
  const u32 ones = fma_bf16_halves(a, r, 0x43024302u) - 0x43004300u;
  const u32 twos = fma_bf16_halves(a, r, 0x43844384u) - 0x43804380u;
  return min_halves(min_halves(halves, ones), min_halves(twos, 0x00070007u)) | (x >> 12 & 0x00080008u);
}
// Eight codes, in the halves of four words, to one word.
SG_DEVICE u32 pack_e2m1(const u32 (&pairs)[4]) {
  const u32 low = pairs[0] | pairs[1] << 8, high = pairs[2] | pairs[3] << 8;
  return ((low | low >> 12) & 0xffff) | (high | high >> 12) << 16;
}

// Four numbers to codes: a word (e2m1: its low half).
template <SgDType kCodes>
SG_DEVICE u32 encode_four(const float (&q)[4]) {
  if constexpr (kCodes == SG_E4M3 || kCodes == SG_E5M2)
    return pack_float8<kCodes == SG_E4M3>(q[0], q[1]) | pack_float8<kCodes == SG_E4M3>(q[2], q[3]) << 16;
  if constexpr (kCodes == SG_INT8) {  // adding 1.5 * 2^23 leaves the rounded integer in the low bits
    u32 sums[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      sums[i] = __float_as_uint(__fadd_rn(fminf(fmaxf(q[i], -127.0f), 127.0f), 0x1.8p23f));
    return __byte_perm(__byte_perm(sums[0], sums[1], 0x0040), __byte_perm(sums[2], sums[3], 0x0040), 0x5410);
  }
  u32 word = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i)
    word |= encode_e2m1(q[i]) << (4 * i);
  return word;
}

template <SgDType kSource, SgDType kCodes, bool kE8m0>
SG_DEVICE void store_codes(u8* to, const SourceUnit<kSource>& unit, u32 count,
                           const GroupScale<kCodes, kE8m0>& scale) {
  constexpr u32 kBits = kCodes == SG_E2M1 ? 4 : 8, kWords = kPerThread * kBits / 32;
  u32 words[4] = {0, 0, 0, 0};
  if constexpr (kCodes == SG_E2M1 && kE8m0 && kSource == SG_BF16) {
    const u32 r = __float_as_uint(scale.r) >> 16, both = r | r << 16;
#pragma unroll
    for (u32 i = 0; i < kWords; ++i) {
      u32 pairs[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j)
        pairs[j] = encode_e2m1_halves(unit.words[4 * i + j], both);
      words[i] = pack_e2m1(pairs);
    }
  } else {
#pragma unroll
    for (u32 i = 0; i < kPerThread; i += 4) {
      float q[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j)
        q[j] = scale.divide(unit.value(i + j));
      words[i * kBits / 32] |= encode_four<kCodes>(q) << (i * kBits % 32);
    }
  }
#pragma unroll
  for (u32 i = 0; i < kWords; ++i)
    words[i] = scale.poisoned ? 0 : words[i];
  const U32x4 v = {words[0], words[1], words[2], words[3]};
  if (count != kPerThread || reinterpret_cast<u64>(to) % (4 * kWords) != 0)
    store_some(to, v, count * kBits / 8);
  else if constexpr (kWords == 4)
    store_global_16(to, v);
  else
    *reinterpret_cast<u64*>(to) = words[0] | static_cast<u64>(words[1]) << 32;
}

template <bool kE8m0>
SG_DEVICE void store_scale(const SgQuantize& p, u32 row, u32 block, u32 code) {
  const i64 at = row * p.scale_stride_row + block * p.scale_stride_k;
  if constexpr (kE8m0)
    static_cast<u8*>(p.scales)[at] = static_cast<u8>(code);
  else
    static_cast<u32*>(p.scales)[at] = code;
}

// Where the kernels find a row's elements and codes.
template <QuantizeConfig c>
struct QuantizeRows {
  const SgQuantize& p;
  bool aligned;
  SG_DEVICE explicit QuantizeRows(const SgQuantize& params) : p(params) {
    const u64 bits = reinterpret_cast<u64>(p.source) | static_cast<u64>(p.source_stride * kBytes);
    aligned = bits % 16 == 0;
  }
  static constexpr u32 kBytes = storage_bytes(c.source);
  SG_DEVICE const u8* source(u32 row, u32 k) const {
    return static_cast<const u8*>(p.source) + (row * p.source_stride + k) * static_cast<i64>(kBytes);
  }
  SG_DEVICE u8* codes(u32 row, u32 k) const {
    return static_cast<u8*>(p.codes) + row * p.code_stride + (c.codes == SG_E2M1 ? k / 2 : k);
  }
};

template <QuantizeConfig c>
SG_DEVICE void quantize_groups(const SgQuantize& p) {
  constexpr u32 kLanes = c.group / kPerThread;
  static_assert(c.group % kPerThread == 0 && kLanes <= 16 && (kLanes & (kLanes - 1)) == 0,
                "a group's lanes are neighbours in a warp");
  const QuantizeRows<c> rows(p);
  const u32 id = blockIdx.x * kQuantizeThreads + threadIdx.x, groups = ceil_div(p.k, c.group);
  const u32 group = id / kLanes, set = group >> p.row_shift;
  const u32 row = (set / groups << p.row_shift) + (group & ((1u << p.row_shift) - 1)), block = set % groups;
  const u32 k = block * c.group + id % kLanes * kPerThread;
  const u32 count = row < p.rows && k < p.k ? min_of(p.k - k, kPerThread) : 0;
  SourceUnit<c.source> unit;
  unit.load(count != 0 ? rows.source(row, k) : nullptr, count, rows.aligned);
  u32 amax = unit.amax();
#pragma unroll
  for (u32 step = 1; step < kLanes; step *= 2)
    amax = max_of(amax, __shfl_xor_sync(0xffffffffu, amax, step));
  if (count == 0)
    return;
  const GroupScale<c.codes, c.e8m0> scale(amax, p.rounding);
  if (id % kLanes == 0)
    store_scale<c.e8m0>(p, row, block, scale.code);
  store_codes<c.source, c.codes, c.e8m0>(rows.codes(row, k), unit, count, scale);
}

template <QuantizeConfig c>
SG_DEVICE void quantize_rows(const SgQuantize& p) {
  constexpr u32 kThreads = c.warps_per_row * kWarp, kHeld = SG_QUANTIZE_HELD / kPerThread;
  const QuantizeRows<c> rows(p);
  const u32 row = blockIdx.x * c.rows_per_cta() + threadIdx.x / kThreads, thread = threadIdx.x % kThreads;
  const u32 units = row < p.rows ? ceil_div(p.k, kPerThread) : 0;
  auto count = [&](u32 u) { return u < units ? min_of(p.k - u * kPerThread, kPerThread) : 0; };
  auto load = [&](SourceUnit<c.source>& unit, u32 u) {
    unit.load(u < units ? rows.source(row, u * kPerThread) : nullptr, count(u), rows.aligned);
  };
  SourceUnit<c.source> held[kHeld], unit;
#pragma unroll
  for (u32 i = 0; i < kHeld; ++i)
    load(held[i], thread + i * kThreads);
  u32 amax = 0;
#pragma unroll
  for (u32 i = 0; i < kHeld; ++i)
    amax = max_of(amax, held[i].amax());
#pragma unroll 1
  for (u32 u = thread + kHeld * kThreads; u < units; u += kThreads) {
    load(unit, u);
    amax = max_of(amax, unit.amax());
  }
#pragma unroll
  for (u32 step = 1; step < kWarp; step *= 2)
    amax = max_of(amax, __shfl_xor_sync(0xffffffffu, amax, step));
  if constexpr (c.warps_per_row > 1) {
    __shared__ u32 parts[kQuantizeThreads / kWarp];
    const u32 warp = threadIdx.x / kWarp, first = warp / c.warps_per_row * c.warps_per_row;
    if (threadIdx.x % kWarp == 0)
      parts[warp] = amax;
    __syncthreads();
#pragma unroll
    for (u32 w = 0; w < c.warps_per_row; ++w)
      amax = max_of(amax, parts[first + w]);
  }
  if (units == 0)
    return;
  const GroupScale<c.codes, c.e8m0> scale(amax, p.rounding);
  if (thread == 0)
    store_scale<c.e8m0>(p, row, 0, scale.code);
#pragma unroll
  for (u32 i = 0; i < kHeld; ++i) {
    const u32 u = thread + i * kThreads;
    if (u < units)
      store_codes<c.source, c.codes, c.e8m0>(rows.codes(row, u * kPerThread), held[i], count(u), scale);
  }
#pragma unroll 1
  for (u32 u = thread + kHeld * kThreads; u < units; u += kThreads) {
    load(unit, u);
    store_codes<c.source, c.codes, c.e8m0>(rows.codes(row, u * kPerThread), unit, count(u), scale);
  }
}

template <QuantizeConfig c>
SG_DEVICE void quantize(const SgQuantize& p) {
  if constexpr (c.group == 0)
    quantize_rows<c>(p);
  else
    quantize_groups<c>(p);
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_QUANTIZE(symbol, config)                                 \
  extern "C" {                                                                    \
  __constant__ SgQuantizeInfo symbol##_info = {SG_QUANTIZE_ABI_VERSION,           \
                                               scalegemm::cuda::kQuantizeThreads, \
                                               config.group,                      \
                                               config.rows_per_cta(),             \
                                               config.source,                     \
                                               config.codes,                      \
                                               config.e8m0 ? SG_E8M0 : SG_F32};   \
  }                                                                               \
  extern "C" __global__ void __launch_bounds__(scalegemm::cuda::kQuantizeThreads) \
      symbol(const __grid_constant__ SgQuantize params) {                         \
    scalegemm::cuda::quantize<config>(params);                                    \
  }
