// In place of kernels/cuda/ptx.cuh where a kernel is compiled for the host (tests/emulated/device.h).
#pragma once

#include "cuda/base.cuh"

namespace scalegemm::cuda {

struct alignas(16) U32x4 {
  u32 x, y, z, w;
};

inline void store_global_16(void* p, U32x4 v) {
  *static_cast<U32x4*>(p) = v;
}

inline u32 max_halves(u32 a, u32 b) {
  return max_of(a & 0xffff, b & 0xffff) | max_of(a >> 16, b >> 16) << 16;
}
inline u32 min_halves(u32 a, u32 b) {
  return min_of(a & 0xffff, b & 0xffff) | min_of(a >> 16, b >> 16) << 16;
}
// Rounded to double on the way: the product has 16 bits, so that comes near no tie of bf16.
inline u32 fma_bf16_halves(u32 a, u32 b, u32 c) {
  u32 d = 0;
  for (u32 shift = 0; shift < 32; shift += 16) {
    const auto number = [shift](u32 halves) {
      return static_cast<double>(__uint_as_float(halves >> shift << 16));
    };
    const double sum = number(a) * number(b) + number(c);
    d |= static_cast<u32>(num::encode(num::DType::kBf16, sum, num::Overflow::kSaturate)) << shift;
  }
  return d;
}

// The f16 and bf16 outputs of GEMM epilogues, which no emulated kernel has.
u32 pack_bf16(float low, float high);
u32 pack_f16(float low, float high);

}  // namespace scalegemm::cuda
