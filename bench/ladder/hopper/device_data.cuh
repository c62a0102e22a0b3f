// Test data and judges on the device: quantised normal operands, exact operands, float64 references. Written
// apart from the kernels: shares only the descriptions (types, scales) with what it judges.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda/gemm_config.cuh"

namespace ladder {
using namespace scalegemm::cuda;

// One operand as stored: rows x k codes, `pitch` bytes a row; scales indexed [row group * stride_row + K
// block * stride_k].
struct OperandView {
  unsigned char* codes;
  float* scales;
  unsigned rows, k, pitch, stride_row, stride_k;
  unsigned group_rows, group_k;  // extent of one scale; 0 x 0: no scale
  Type type;
};

__host__ __device__ inline unsigned mix(unsigned long long x) {
  x = (x + 1) * 0x9E3779B97F4A7C15ull, x ^= x >> 31, x *= 0xBF58476D1CE4E5B9ull, x ^= x >> 27,
  x *= 0x94D049BB133111EBull;
  return static_cast<unsigned>(x ^ (x >> 31));
}
__device__ inline float normal(unsigned seed, unsigned row, unsigned k) {
  const unsigned h =
      mix((static_cast<unsigned long long>(row) << 32 | k) ^ static_cast<unsigned long long>(seed) << 48);
  const float u = ((h & 0xffff) + 0.5f) / 65536.0f, v = (h >> 16) / 65536.0f;
  return sqrtf(-2 * logf(u)) * cospif(2 * v) *
         (1 + (mix(row + seed) & 3));  // rows differ in size, so scales differ
}
__host__ __device__ inline float largest(Type t) {
  return t == Type::kE4m3 ? 448.0f : t == Type::kE5m2 ? 57344.0f : t == Type::kInt8 ? 127.0f : 1.0f;
}

__device__ inline void put(unsigned char* row, unsigned k, Type t, float v) {
  if (t == Type::kE4m3)
    row[k] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  if (t == Type::kE5m2)
    row[k] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
  if (t == Type::kInt8)
    reinterpret_cast<signed char*>(row)[k] = static_cast<signed char>(rintf(fminf(fmaxf(v, -127), 127)));
  if (t == Type::kBf16)
    reinterpret_cast<__nv_bfloat16*>(row)[k] = __float2bfloat16(v);
  if (t == Type::kF16)
    reinterpret_cast<__half*>(row)[k] = __float2half(v);
}
__device__ inline double get(const unsigned char* row, unsigned k, Type t) {
  if (t == Type::kE4m3 || t == Type::kE5m2)
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(row[k], t == Type::kE4m3 ? __NV_E4M3 : __NV_E5M2)));
  if (t == Type::kInt8)
    return reinterpret_cast<const signed char*>(row)[k];
  if (t == Type::kBf16)
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[k]);
  return __half2float(reinterpret_cast<const __half*>(row)[k]);
}
__device__ inline double scale_at(const OperandView& o, unsigned row, unsigned k) {
  if (!o.group_rows)
    return 1.0;
  return o.scales[static_cast<size_t>(row / o.group_rows) * o.stride_row +
                  static_cast<size_t>(k / o.group_k) * o.stride_k];
}

// One block of threads a scale group: amax, scale = amax / largest, codes = round(value / scale).
__global__ void quantise_normal(OperandView o, unsigned seed) {
  const unsigned gr = o.group_rows ? min(o.group_rows, o.rows) : 1,
                 gk = o.group_rows ? min(o.group_k, o.k) : o.k;
  const unsigned blocks_k = (o.k + gk - 1) / gk, r0 = blockIdx.x / blocks_k * gr,
                 k0 = blockIdx.x % blocks_k * gk;
  const unsigned r1 = min(r0 + gr, o.rows), k1 = min(k0 + gk, o.k), width = k1 - k0;
  const size_t count = static_cast<size_t>(r1 - r0) * width;
  __shared__ float best[256];
  float amax = 0, scale = 1;
  if (o.group_rows) {
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
      amax = fmaxf(amax, fabsf(normal(seed, r0 + i / width, k0 + i % width)));
    best[threadIdx.x] = amax;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s; s /= 2) {
      if (threadIdx.x < s)
        best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + s]);
      __syncthreads();
    }
    scale = fmaxf(best[0], 1e-12f) / largest(o.type);
    if (threadIdx.x == 0)
      o.scales[static_cast<size_t>(r0 / gr) * o.stride_row + static_cast<size_t>(k0 / gk) * o.stride_k] =
          scale;
  }
  for (size_t i = threadIdx.x; i < count; i += blockDim.x)
    put(o.codes + (r0 + i / width) * static_cast<size_t>(o.pitch), k0 + i % width, o.type,
        normal(seed, r0 + i / width, k0 + i % width) / scale);
}

// A fixed scale for the whole tensor; used instead of the kernel above when one group would be one block's
// work.
__global__ void quantise_tensor(OperandView o, unsigned seed) {
  const float scale = 18.0f / largest(o.type);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    o.scales[0] = scale;
  for (unsigned k = threadIdx.x; k < o.k; k += blockDim.x)
    put(o.codes + blockIdx.x * static_cast<size_t>(o.pitch), k, o.type, normal(seed, blockIdx.x, k) / scale);
}

// Codes -1, 0, 1 and distinct power-of-two scales: every sum of up to 8,192 products is exact in every
// accumulation order.
__global__ void fill_exact(OperandView o, unsigned seed) {
  for (unsigned k = threadIdx.x; k < o.k; k += blockDim.x) {
    const unsigned h = mix((static_cast<unsigned long long>(blockIdx.x) << 32 | k) ^
                           static_cast<unsigned long long>(seed) << 48) %
                       4;
    put(o.codes + blockIdx.x * static_cast<size_t>(o.pitch), k, o.type,
        h == 0   ? 1.0f
        : h == 1 ? -1.0f
                 : 0.0f);
    if (o.group_rows && blockIdx.x % o.group_rows == 0 && k % o.group_k == 0)
      o.scales[static_cast<size_t>(blockIdx.x / o.group_rows) * o.stride_row +
               static_cast<size_t>(k / o.group_k) * o.stride_k] =
          exp2f(static_cast<int>((5 * (blockIdx.x / o.group_rows) + 3 * (k / o.group_k) + seed) % 7) - 3);
  }
}

__device__ inline double get_output(const void* d, size_t at, Type t) {
  if (t == Type::kF32)
    return static_cast<const float*>(d)[at];
  if (t == Type::kBf16)
    return __bfloat162float(static_cast<const __nv_bfloat16*>(d)[at]);
  return __half2float(static_cast<const __half*>(d)[at]);
}
__device__ inline double round_output(double v, Type t) {
  if (t == Type::kF32)
    return static_cast<float>(v);
  if (t == Type::kBf16)
    return __bfloat162float(__float2bfloat16(static_cast<float>(v)));
  return __half2float(__float2half(static_cast<float>(v)));
}

// Every element, bit for bit: one thread an element. Counts mismatches.
__global__ void judge_exact(OperandView a, OperandView b, const void* d, size_t ldd, Type type,
                            unsigned long long* wrong) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= static_cast<size_t>(a.rows) * b.rows)
    return;
  const unsigned m = i / b.rows, n = i % b.rows;
  double sum = 0;
  for (unsigned k = 0; k < a.k; ++k)
    sum += get(a.codes + static_cast<size_t>(m) * a.pitch, k, a.type) *
           get(b.codes + static_cast<size_t>(n) * b.pitch, k, b.type) * scale_at(a, m, k) * scale_at(b, n, k);
  if (!(get_output(d, m * ldd + n, type) == round_output(sum, type)))
    atomicAdd(wrong, 1ull);
}

// Sampled elements against float64, one warp a sample. The bound: each wgmma (32 bytes of K) cuts its
// addends, the old accumulator among them, to 13 fractional bits of the largest (8-bit floats; 16-bit
// operands keep 23 bits), so it errs by at most (products + 1) * 2^-13 * max addend; promotions and the final
// product round in fp32, the output once. Writes error / bound.
__global__ void judge_random(OperandView a, OperandView b, const void* d, size_t ldd, Type type,
                             unsigned promote_k, float* ratio) {
  const unsigned lane = threadIdx.x, h = mix(blockIdx.x * 7919u + 11);
  const unsigned m = blockIdx.x == 0 ? a.rows - 1 : mix(h) % a.rows,
                 n = blockIdx.x == 0 ? b.rows - 1 : mix(h + 1) % b.rows;
  const unsigned per = a.type == Type::kBf16 || a.type == Type::kF16 ? 16 : 32,
                 chain = promote_k ? promote_k : a.k;
  const double cut = a.type == Type::kInt8 ? 0 : per == 16 ? exp2(-22.0) : exp2(-13.0);
  double total = 0, bound = 0, absolute = 0, partial = 0, chain_bound = 0;
  for (unsigned k0 = 0; k0 < a.k; k0 += per) {
    const unsigned k = k0 + lane;
    const bool in = lane < per && k < a.k;
    double p = in ? get(a.codes + static_cast<size_t>(m) * a.pitch, k, a.type) *
                        get(b.codes + static_cast<size_t>(n) * b.pitch, k, b.type)
                  : 0;
    double top = fabs(p);
    for (unsigned s = 16; s; s /= 2)
      p += __shfl_xor_sync(~0u, p, s), top = fmax(top, __shfl_xor_sync(~0u, top, s));
    chain_bound += (per + 1) * cut * fmax(top, fabs(partial) + chain_bound);
    partial += p;
    if ((k0 + per) % chain == 0 || k0 + per >= a.k) {
      const double s = scale_at(a, m, k0) * scale_at(b, n, k0);
      total += partial * s, bound += chain_bound * s, absolute += fabs(partial * s),
          partial = chain_bound = 0;
    }
  }
  bound += absolute * exp2(-23.0) * (3 + a.k / chain);
  bound += fabs(total) * exp2(type == Type::kF32 ? -24.0 : type == Type::kBf16 ? -8.0 : -11.0) + 1e-30;
  if (type == Type::kF16)
    bound += 6e-8;
  if (lane == 0)
    ratio[blockIdx.x] = static_cast<float>(fabs(get_output(d, m * ldd + n, type) - total) / bound);
}

// Counts bytes of [p, p + bytes) that are not `value`.
__global__ void judge_fill(const unsigned char* p, size_t bytes, unsigned char value,
                           unsigned long long* wrong) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < bytes && p[i] != value)
    atomicAdd(wrong, 1ull);
}
// Counts bytes that are not `value` between column `used` and `pitch` of each row.
__global__ void judge_padding(const unsigned char* p, size_t pitch, size_t used, unsigned char value,
                              unsigned long long* wrong) {
  for (size_t i = used + threadIdx.x; i < pitch; i += blockDim.x)
    if (p[blockIdx.x * pitch + i] != value)
      atomicAdd(wrong, 1ull);
}
__global__ void judge_same(const unsigned* x, const unsigned* y, size_t words, unsigned long long* wrong) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < words && x[i] != y[i])
    atomicAdd(wrong, 1ull);
}

}  // namespace ladder
