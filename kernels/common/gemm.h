// One GEMM as kernels of every device see it: sizes, operands with their scales, epilogue. Plain C, included
// by kernel sources (also under NVRTC) and by the library.
//
// A kernel computes, for every batch index and every m < M, n < N,
//
//   D[m,n] = convert(clamp(act(alpha * sum_k a(m,k) * b(n,k) + beta * C[m,n] + bias[n])))
//   x(r,k) = (code(r,k) - zero(r/block_r, k/block_k)) * scale(r/block_r, k/block_k) * global
#ifndef SCALEGEMM_KERNELS_COMMON_GEMM_H_
#define SCALEGEMM_KERNELS_COMMON_GEMM_H_

#ifdef __CUDACC_RTC__
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

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

typedef struct SgGemm {
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
  float clamp_min, clamp_max;            // -inf, +inf where there is no clamp
  void* workspace;                       // workspace_bytes() of memory, 64-byte aligned
  int64_t scale_bytes_a, scale_bytes_b;  // extent of the memory behind the scales
} SgGemm;

#endif  // SCALEGEMM_KERNELS_COMMON_GEMM_H_
