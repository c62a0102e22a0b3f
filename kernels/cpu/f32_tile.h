// The f32 FMA micro-kernels: a tile of C in registers, k by k.
//
//              32 columns (AVX2: 16, two passes)
//            +------------+------------+
//    a[k][0] |  acc[0][0] |  acc[0][1] |      AVX-512: 14 rows x 2 vectors = 28 accumulators, 2 of B, 1 of A:
//    a[k][1] |  acc[1][0] |  acc[1][1] |               31 of 32 registers.
//      ...   |            |            |      AVX2:     6 rows x 2 vectors = 12 accumulators, 2 of B, 1 of A:
//   a[k][13] | acc[13][0] | acc[13][1] |               15 of 16 registers.
//            +------------+------------+
//                b[k][0]      b[k][1]
//
// A is a row panel [k][rows], B a decoded block [k][32], C a partial tile [rows][32]; all f32.
// Per k step and full tile: AVX-512 28 FMA, 14 broadcasts, 2 loads = 28 cycles where one 512-bit FMA issues a
// cycle (Zen 4), 14 where two do; AVX2 12 FMA, 6 broadcasts, 2 loads = 6 cycles. The accumulator chains are
// 28 (12) long in flight, more than latency x rate (8), so the FMA rate is the only limit while B comes from
// L1/L2.
//
// Every sum is one chain of FMAs in ascending k, continued over k blocks through C: the bits depend neither
// on blocking, tile shape, ISA, nor on how work is split.
#ifndef SCALEGEMM_KERNELS_CPU_F32_TILE_H_
#define SCALEGEMM_KERNELS_CPU_F32_TILE_H_

#include "cpu/weights.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kTileRows = SG_CPU_AVX512 ? 14 : 6;
constexpr int kTileVecs = 2;
constexpr int kTileColumns = kTileVecs * kLanes;

// What one call computes: c[i][j] += sum over k < depth of a[k*rows + i] * b[k*32 + j], or = when `fresh`.
struct TileJob {
  const float* a;
  const float* b;
  float* c;
  int64_t depth;
  int fresh;
};

// Not inlined: one copy serves every way of decoding B.
template <int kRows>
__attribute__((noinline)) void fma_tile(const TileJob& job) {
  for (int column = 0; column < kGroup; column += kTileColumns) {
    const float* a = job.a;
    const float* b = job.b + column;
    float* c = job.c + column;
    F acc[kRows][kTileVecs];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kTileVecs; ++j) {
        acc[i][j] = job.fresh ? zero() : load(c + i * kGroup + j * kLanes);
      }
    }
    for (int64_t k = 0; k < job.depth; ++k, a += kRows, b += kGroup) {
      const F b0 = load(b), b1 = load(b + kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const F x = set1(a[i]);
        acc[i][0] = fma(x, b0, acc[i][0]);
        acc[i][1] = fma(x, b1, acc[i][1]);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kTileVecs; ++j) {
        store(c + i * kGroup + j * kLanes, acc[i][j]);
      }
    }
  }
}

// Run-time row count, 1 .. kTileRows.
template <int kRows = kTileRows>
inline void run_tile(int rows, const TileJob& job) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return run_tile<kRows - 1>(rows, job);
    }
  }
  fma_tile<kRows>(job);
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_F32_TILE_H_
