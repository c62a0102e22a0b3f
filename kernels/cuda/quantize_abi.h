// What a quantiser kernel is launched with. Plain data, as abi.h.
//
// A code object of the quantiser named S holds S, which takes (SgQuantize) as a __grid_constant__, and
// S_info, a constant SgQuantizeInfo. Grid, one-dimensional:
//   group != 0   ceil(rows * ceil(k / group) * (group / 16) / threads)
//   group == 0   ceil(rows / rows_per_cta)
#ifndef SCALEGEMM_KERNELS_CUDA_QUANTIZE_ABI_H_
#define SCALEGEMM_KERNELS_CUDA_QUANTIZE_ABI_H_

#include "common/gemm.h"

#define SG_QUANTIZE_ABI_VERSION 2
#define SG_QUANTIZE_UNIT 16  // elements that a thread loads and stores at once
#define SG_QUANTIZE_HELD 64  // elements of a row that a thread keeps in registers, where group is 0

typedef struct SgQuantizeInfo {
  uint32_t abi_version;
  uint32_t threads;                               // of a CTA; no dynamic shared memory
  uint32_t group;                                 // elements of K that share a scale; 0: a whole row
  uint32_t rows_per_cta;                          // where group is 0
  int32_t source_dtype, code_dtype, scale_dtype;  // SgDType
} SgQuantizeInfo;

typedef struct SgQuantize {
  const void* source;                        // element (r, k) at r * source_stride + k
  int64_t source_stride;                     // elements
  void* codes;                               // row r at r * code_stride; 4-bit: even k in the low nibble
  int64_t code_stride;                       // bytes
  void* scales;                              // scale (r, j) at r * scale_stride_row + j * scale_stride_k
  int64_t scale_stride_row, scale_stride_k;  // elements
  uint32_t rows, k;
  uint32_t row_shift;  // groups of K: those of 2^row_shift rows are neighbours, as their scales may be
  uint32_t rounding;   // of e8m0 scales: 0 floor, 1 even, 2 ceil (scalegemm_scale_rounding)
} SgQuantize;

#endif  // SCALEGEMM_KERNELS_CUDA_QUANTIZE_ABI_H_
