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

#include <stdint.h>

#define SG_CPU_ABI_VERSION 1

// Equal to scalegemm::num::DType (checked where the library includes this file).
enum SgDType {
  SG_F32 = 1,
  SG_F16 = 2,
  SG_BF16 = 3,
  SG_E4M3 = 4,
  SG_E4M3_FNUZ = 5,
  SG_E5M2 = 6,
  SG_E5M2_FNUZ = 7,
  SG_E2M1 = 8,
  SG_E8M0 = 9,
  SG_INT8 = 10,
  SG_INT4 = 11,
  SG_UINT4 = 12,
  SG_INT32 = 13
};

// Equal to scalegemm::spec::Activation.
enum SgActivation {
  SG_ACT_NONE = 0,
  SG_ACT_RELU = 1,
  SG_ACT_GELU_TANH = 2,
  SG_ACT_GELU_ERF = 3,
  SG_ACT_SILU = 4
};

// A matrix of scales or zero points: element (i, j) serves rows [i*block_r, (i+1)*block_r) and
// k in [j*block_k, (j+1)*block_k). A null `data` means 1 (scales) or 0 (zero points). Zero points share the
// blocks of the scales. Strides count elements; 4-bit zero points are stored one code a byte.
typedef struct SgScale {
  const void* data;
  int64_t stride_r, stride_k;  // of the scale matrix itself
  int64_t stride_batch;
  int64_t block_r, block_k;  // >= 1; "all" is given as the operand's extent
  int32_t dtype;             // SgDType
} SgScale;

// One operand seen as rows x K: rows are M for A and N for B. Strides count storage elements: for the 4-bit
// types one storage element is a byte with codes (k even: low nibble, k+1: high nibble), so the address of
// code (r, k) is data + r*stride_r + (k/2)*stride_k.
//
// A packed B (packed = a panel layout): `data`, `scale.data` and `zero.data` point at the three sections of
// panels.h, each 64-byte aligned. Then stride_r and stride_k of operand, scale and zero, and block_r, are not
// read: order is that of the layout and every column has its own element. stride_batch counts elements of
// each section (bytes for codes of 8 bits and less). scale.dtype is the scales' own type, scale.block_k the
// block along K (K for one block); zero.dtype is SG_INT8.
typedef struct SgOperand {
  const void*
      data;  // raw codes, or the packed codes when `packed` is set (B only; see kernels/common/panels.h)
  int64_t stride_r, stride_k, stride_batch;
  SgScale scale;
  SgScale zero;               // blocks as in `scale`
  const float* global_scale;  // one f32, or null for 1
  int32_t dtype;              // SgDType
  int32_t packed;             // 0 raw; else a panel layout id (kernels/common/panels.h)
} SgOperand;

typedef struct SgCpuGemm {
  int64_t m, n, k, batch;
  SgOperand a, b;
  const void* c;  // M x N, or null; unit column stride not required
  int64_t c_stride_m, c_stride_n, c_stride_batch;
  const void* bias;  // N elements, or null
  void* d;
  int64_t d_stride_m, d_stride_n, d_stride_batch;
  int32_t c_dtype, bias_dtype, d_dtype;
  int32_t activation;       // SgActivation
  int32_t batch_invariant;  // 1: a row of D has the same bits whatever M is (may be slower for small M)
  float alpha, beta;
  float clamp_min, clamp_max;  // -inf, +inf where there is no clamp
  void* workspace;             // workspace_bytes() of memory, 64-byte aligned
} SgCpuGemm;

typedef struct SgCpuKernel {
  uint32_t abi_version;  // SG_CPU_ABI_VERSION
  const char* name;      // KernelSpec name
  // Shared workspace, for people who own memory; depends on the sizes and types in `g` only.
  uint64_t (*workspace_bytes)(const SgCpuGemm* g);
  // Private memory of one thread in `compute` and `prepare`, 64-byte aligned.
  uint64_t (*scratch_bytes)(const SgCpuGemm* g);
  int64_t (*prepare_units)(const SgCpuGemm* g);
  void (*prepare)(const SgCpuGemm* g, int64_t begin, int64_t end, void* scratch);
  int64_t (*compute_units)(const SgCpuGemm* g);
  void (*compute)(const SgCpuGemm* g, int64_t begin, int64_t end, void* scratch);
} SgCpuKernel;

#endif  // SCALEGEMM_KERNELS_CPU_ABI_H_
