// What the relayout kernel (relayout.cuh) is launched with. Plain data, shared with src/device/cuda.
#ifndef SCALEGEMM_KERNELS_CUDA_RELAYOUT_ABI_H_
#define SCALEGEMM_KERNELS_CUDA_RELAYOUT_ABI_H_

#include "common/gemm.h"

#define SG_RELAYOUT_THREADS 256
#define SG_RELAYOUT_ROWS 128   // of a tile
#define SG_RELAYOUT_BYTES 128  // of K of a tile

// One matrix: element (r, k) of `element` bytes (1, 2 or 4) lies at from + (r * stride_r + k * stride_k) *
// element and goes to to + r * pitch + k * element. `to` and `pitch` are multiples of 16 bytes; rows are
// filled with zeros to their end.
typedef struct SgRelayout {
  const void* from;
  void* to;
  int64_t stride_r, stride_k;  // elements
  uint64_t pitch;              // bytes
  uint32_t rows, k;
  uint32_t element;
  uint32_t tiles_k;  // tiles along K; tile t is (t / tiles_k, t % tiles_k)
} SgRelayout;

#define SG_RELAYOUT_JOBS 4

// The grid is the tiles of all jobs, one job after the other; those of job i end before tile end[i].
typedef struct SgRelayoutJobs {
  SgRelayout jobs[SG_RELAYOUT_JOBS];
  uint32_t end[SG_RELAYOUT_JOBS];
} SgRelayoutJobs;

#endif  // SCALEGEMM_KERNELS_CUDA_RELAYOUT_ABI_H_
