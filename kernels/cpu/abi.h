// The contract between the library and a CPU kernel: plain C structs, no allocation, no threads, no
// library calls inside a kernel. Included by the kernel sources and by src/device/cpu.
//
// A kernel computes, for every batch index and every m < M, n < N,
//
//   D[m,n] = convert(clamp(act(alpha * sum_k a(m,k) * b(n,k) + beta * C[m,n] + bias[n])))
//   x(r,k) = (code(r,k) - zero(r/block_r, k/block_k)) * scale(r/block_r, k/block_k) * global
//
// in two phases, each a range of independent units that the caller may split over threads in any way:
//   prepare: decodes or repacks A into the shared workspace (0 units where a kernel needs none);
//   compute: every unit writes its own block of D. All prepare units finish before any compute unit starts.
// The result does not depend on how units are split.
#ifndef SCALEGEMM_KERNELS_CPU_ABI_H_
#define SCALEGEMM_KERNELS_CPU_ABI_H_

#include "common/gemm.h"

#define SG_CPU_ABI_VERSION 1

typedef struct SgCpuKernel {
  uint32_t abi_version;  // SG_CPU_ABI_VERSION
  const char* name;      // KernelSpec name
  // Shared workspace, for people who own memory; depends on the sizes and types in `g` only.
  uint64_t (*workspace_bytes)(const SgGemm* g);
  // Private memory of one thread in `compute` and `prepare`, 64-byte aligned.
  uint64_t (*scratch_bytes)(const SgGemm* g);
  int64_t (*prepare_units)(const SgGemm* g);
  void (*prepare)(const SgGemm* g, int64_t begin, int64_t end, void* scratch);
  int64_t (*compute_units)(const SgGemm* g);
  void (*compute)(const SgGemm* g, int64_t begin, int64_t end, void* scratch);
} SgCpuKernel;

#endif  // SCALEGEMM_KERNELS_CPU_ABI_H_
