// What a GPU can do at most: ceilings that the GEMM kernels are compared with.
//
//   matrix  wgmma on operands that lie in shared memory: no load, no barrier, no epilogue. Two warpgroups, so
//           that one multiplies while the other promotes or waits. A round is a chain of 16 wgmmas (4 steps
//           of 128 bytes of K) that starts from zero, so sums are as large as in a GEMM of that K; promoted:
//           4 chains. A CTA's 192 KB of shared memory keep a second one off the multiprocessor. Registers:
//           N / 2 sums, promoted twice that. Cycles a step and warpgroup: 4 * N / 2.
//   read    every thread has 8 loads of 16 bytes in flight, neighbours side by side, the whole grid abreast.
//   empty   returns at once.
#pragma once
#include "cuda/probe_abi.h"
#include "cuda/wgmma.cuh"

namespace scalegemm::cuda {

template <u32 kN, Type kType, bool kPromoted>
SG_DEVICE void probe_matrix(const U32x4* operands, u32 rounds, float* sink) {
  using Mma = Wgmma<kN, kType, kType>;
  constexpr u32 kMmas = kStepBytes / kMmaBytes, kRegisters = kN / 2;
  constexpr u32 kStepA = kMmaRows * kStepBytes, kStepB = kN * kStepBytes, kA = SG_PROBE_STEPS * kStepA;
  static_assert(2 * kA + SG_PROBE_STEPS * kStepB <= SG_PROBE_OPERANDS, "the operands of a round fit");
  extern __shared__ __align__(1024) u8 shared_memory[];
  for (u32 i = threadIdx.x; i < SG_PROBE_OPERANDS / 16; i += SG_PROBE_THREADS)
    reinterpret_cast<U32x4*>(shared_memory)[i] = operands[i];
  fence_async_proxy();
  __syncthreads();
  const u32 group = warp_uniform(threadIdx.x / kWarpgroup), shared = shared_address(shared_memory);
  const u64 a = operand_descriptor(shared + group * kA), b = operand_descriptor(shared + 2 * kA);

  typename Mma::Acc chain[kRegisters];
  float sums[kRegisters];  // promoted
#pragma unroll
  for (u32 i = 0; i < kRegisters; ++i)
    chain[i] = 0, sums[i] = 0;
#pragma unroll 1
  for (u32 i = 0; i < rounds * SG_PROBE_STEPS; ++i) {
    const u32 step = i % SG_PROBE_STEPS;
    wgmma_fence();
#pragma unroll
    for (u32 q = 0; q < kMmas; ++q)
      Mma::ss(chain, a + step * (kStepA / 16) + q * kDescriptorPerMma,
              b + step * (kStepB / 16) + q * kDescriptorPerMma, kPromoted ? q != 0 : (step | q) != 0);
    wgmma_commit();
    if constexpr (kPromoted) {
      wgmma_wait<0>();
      pin_registers(chain);
#pragma unroll
      for (u32 r = 0; r < kRegisters; ++r)
        sums[r] += chain[r];
    } else {
      wgmma_wait<1>();
    }
  }
  wgmma_wait<0>();
  pin_registers(chain);
  float total = 0;
#pragma unroll
  for (u32 i = 0; i < kRegisters; ++i)
    total += static_cast<float>(chain[i]) + sums[i];
  sink[blockIdx.x * SG_PROBE_THREADS + threadIdx.x] = total;
}

// Units of 16 bytes; lanes past the end read the last one again. Stores only what no caller writes into
// `data`, so that the loads are not left out.
SG_DEVICE void probe_read(const U32x4* data, u32 count, u32* sink) {
  constexpr u32 kInFlight = 8;
  const u32 stride = gridDim.x * SG_PROBE_READ_THREADS;
  u32 ones = 0;
  for (u32 i = blockIdx.x * SG_PROBE_READ_THREADS + threadIdx.x; i < count; i += kInFlight * stride) {
    U32x4 v[kInFlight];
#pragma unroll
    for (u32 j = 0; j < kInFlight; ++j)
      v[j] = load_global_16(data + min_of(i + j * stride, count - 1));
#pragma unroll
    for (u32 j = 0; j < kInFlight; ++j)
      ones |= v[j].x | v[j].y | v[j].z | v[j].w;
  }
  if (ones == 0xffffffffu)
    *sink = ones;
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_PROBE_MEMORY(symbol)                                                    \
  extern "C" __global__ void symbol##_empty() {}                                          \
  extern "C" __global__ void __launch_bounds__(SG_PROBE_READ_THREADS, 1)                  \
      symbol##_read(const scalegemm::cuda::U32x4* data, unsigned count, unsigned* sink) { \
    scalegemm::cuda::probe_read(data, count, sink);                                       \
  }

#define SG_PROBE_MATRIX_KERNEL(symbol, name, type, n, promoted)                                      \
  extern "C" __global__ void __launch_bounds__(SG_PROBE_THREADS)                                     \
      symbol##_##name(const scalegemm::cuda::U32x4* operands, unsigned rounds, float* sink) {        \
    scalegemm::cuda::probe_matrix<n, scalegemm::cuda::Type::type, promoted>(operands, rounds, sink); \
  }
#define SCALEGEMM_PROBE_MATRIX(symbol) SG_PROBE_MATRIX(SG_PROBE_MATRIX_KERNEL, symbol)
