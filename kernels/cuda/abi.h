// The contract between the library and a CUDA kernel: what a code object says of itself and what it is
// launched with. Plain data, included by the kernel sources (NVRTC, nvcc) and by src/device/cuda.
//
// A code object of the kernel named S (a C identifier) holds two symbols:
//   S        the entry point. The mma family takes (SgGemm); the TMA families take
//            (map of A, map of B, map of D, SgTmaGemm), all as __grid_constant__
//   S_info   a constant SgCudaInfo, read once when the code is loaded
#ifndef SCALEGEMM_KERNELS_CUDA_ABI_H_
#define SCALEGEMM_KERNELS_CUDA_ABI_H_

#include "common/gemm.h"

#define SG_CUDA_ABI_VERSION 1

enum SgCudaFamily {
  SG_CUDA_MMA = 1,         // grid: (ceil(N / tile_n), ceil(M / tile_m), batch)
  SG_CUDA_TMA = 2,         // persistent: at most one CTA a multiprocessor, clusters of cluster_m x cluster_n
  SG_CUDA_TMA_SPLIT_K = 3  // clusters of cluster_k CTAs share a tile
};

typedef struct SgCudaInfo {
  uint32_t abi_version;
  uint32_t family;        // SgCudaFamily
  uint32_t threads;       // of a CTA
  uint32_t shared_bytes;  // dynamic shared memory of a CTA
  uint32_t tile_m, tile_n;
  uint32_t cluster_m, cluster_n, cluster_k;
  // TMA families: rows of the boxes of A and B (of 128 bytes along K), elements of K between promotions (0:
  // none) and whether block scales may have any strides.
  uint32_t box_m, box_n;
  uint32_t promote_k;
  uint32_t strided_scales;
  uint32_t swap_ab;
  uint32_t scale_a, scale_b;  // SgTmaScaleKind
} SgCudaInfo;

// Which rows of an operand share a scale; blocks are promote_k long.
enum SgTmaScaleKind {
  SG_SCALE_NONE = 0,
  SG_SCALE_TENSOR = 1,
  SG_SCALE_ROW = 2,
  SG_SCALE_BLOCK_1 = 3,
  SG_SCALE_BLOCK_128 = 4
};

// A grid of f32 scales: one for each (row group, K block). A kernel made for e8m0 block scales finds bytes
// instead: 4-byte aligned, K blocks side by side (stride_k 1), stride_row a multiple of 4, and every line
// readable to the end of its last 4 bytes.
typedef struct SgTmaScale {
  const float* data;
  uint32_t stride_row;  // in elements, between row groups
  uint32_t stride_k;    // in elements, between K blocks
} SgTmaScale;

// The epilogue beyond the scales. Kernels without a fused epilogue read alpha only.
typedef struct SgTmaEpilogue {
  const void* c;     // element (m, n) at m * c_stride_m + n * c_stride_n
  const void* bias;  // N elements
  uint64_t c_stride_m, c_stride_n;
  int32_t c_dtype, bias_dtype;
  int32_t activation;
  float alpha, beta, clamp_min, clamp_max;
} SgTmaEpilogue;

// D, row-major: column stride 1.
typedef struct SgTmaOutput {
  void* data;
  uint64_t stride;  // elements between rows
  uint32_t rows, columns;
  uint32_t vectors;  // not zero: data and stride are multiples of 16 bytes, and the map of D is valid
} SgTmaOutput;

typedef struct SgTmaGemm {
  uint32_t m, n, k;
  uint32_t raster;        // tiles of X in a strip of the tile order: neighbours in time share Y tiles in L2
  uint32_t scale_blocks;  // scale blocks along K
  SgTmaScale scale_a, scale_b;
  SgTmaOutput d;
  const float* global_a;  // a further factor of each operand, or null
  const float* global_b;
  SgTmaEpilogue epilogue;
} SgTmaGemm;

#endif  // SCALEGEMM_KERNELS_CUDA_ABI_H_
