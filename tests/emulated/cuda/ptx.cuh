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

// The f16 and bf16 outputs of GEMM epilogues, which no emulated kernel has.
u32 pack_bf16(float low, float high);
u32 pack_f16(float low, float high);

}  // namespace scalegemm::cuda
