// The fused decode-and-multiply kernel for a few rows (M <= 4): codes are decoded in registers, used for all
// rows and dropped, so that each weight byte is touched once.
//
//   k -->   slice 0   slice 1  ...  slice S-1        a slice is 2 vectors of columns: a panel (AVX-512) or
//   half row 0   acc acc   acc acc       acc acc          of one (AVX2); S slices advance together, each from
//   its own
//   ...                                              stream, so that rows*S*2 independent FMA chains hide the
//   row R-1                                          latency of 4 while every chain keeps ascending k.
//
//   rows            1    2    3    4
//   S, AVX-512      4    4    2    2      accumulators rows*S*2 = 8 16 12 16 of 32 registers
//   S, AVX2         4    2    1    1                              8  8  6  8 of 16
//
// The scale of a k block multiplies the block's sum, not its values: sum += scale * sum over the block of
// a*(code - zero). That takes the multiplication out of the loop (one fewer of the ops on the FMA ports per
// vector) and rounds less, but differently from f32_tile.h; only without scales do both give the same bits.
// Per 32 codes, one row, AVX-512: e4m3 2 widen + 2 shift + 2 add + 2 ternlog (256-bit) + 2 cvtph2ps + 2 mul +
// 2 FMA; 4-bit (64 codes): 2 widen + 2 shift + 4 permute + 4 FMA. On Zen 4 about 8 cycles per 32 bytes, twice
// what its memory takes: where there is VDPBF16PS, bf16_dot.h serves these types.
// Codes are prefetched kPrefetchBytes ahead in each stream.
#ifndef SCALEGEMM_KERNELS_CPU_F32_DOT_H_
#define SCALEGEMM_KERNELS_CPU_F32_DOT_H_

#include "cpu/weights.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kDotRows = 4;
constexpr int kSliceVecs = 2;
constexpr int kSliceColumns = kSliceVecs * kLanes;
constexpr int kSlicesPerPanel = kGroup / kSliceColumns;
constexpr int kMaxSlices = 4;
constexpr int64_t kPrefetchBytes = 1024;

constexpr int dot_slices(int64_t rows) {
  return SG_CPU_AVX512 ? (rows <= 2 ? 4 : 2) : (rows == 1 ? 4 : rows == 2 ? 2 : 1);
}

// Is a slice decoded with its even and odd columns apart? Sums are put in order when a block's scales are
// applied.
constexpr bool splits_columns(int type, WeightMode mode) {
  return SG_CPU_AVX512 && type == SG_E2M1 && mode == kScaled;
}

template <int kType, WeightMode kMode>
SG_INLINE Decoded<kType, kSliceVecs> decode_slice(const uint8_t* codes) {
#if SG_CPU_AVX512
  if constexpr (splits_columns(kType, kMode)) {
    return decode_e2m1_split(codes);
  }
#endif
  return decode<kType, kSliceVecs>(codes);
}

// One call: sums[slice][row*32 + column] continued over k in [k0, k1); a is [k][rows] from k0 on.
struct DotJob {
  PanelBlock slices[kMaxSlices];  // codes and sums already at the slice's first column
  int columns[kMaxSlices];        // the slice's first column in its panel
  float* sums[kMaxSlices];
  const float* a;
  int64_t k0, k1, block_k;
};

// The FMAs of one k for one slice.
template <int kRows>
SG_INLINE void accumulate(const float* a, const F (&b)[kSliceVecs], F (&acc)[kRows][kSliceVecs]) {
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kSliceVecs; ++j) {
      acc[i][j] = fma(set1(a[i]), b[j], acc[i][j]);
    }
  }
}

// Advances every slice by one storage element (1 k, or the halves [kFrom, kTo) of a pair).
template <int kType, WeightMode kMode, int kRows, int kSlices, int kFrom, int kTo>
SG_INLINE void dot_step(const DotJob& job, const float* a, int64_t offset, int64_t row,
                        F (&acc)[kSlices][kRows][kSliceVecs]) {
#pragma GCC unroll 4
  for (int s = 0; s < kSlices; ++s) {
    const uint8_t* codes = job.slices[s].codes + offset;
    _mm_prefetch(reinterpret_cast<const char*>(codes + kPrefetchBytes), _MM_HINT_T0);
    const auto x = decode_slice<kType, kMode>(codes);
    const BlockScale<kType, kMode, kSliceVecs> block(job.slices[s], row, job.columns[s]);
#pragma GCC unroll 2
    for (int half = kFrom; half < kTo; ++half) {
      F b[kSliceVecs];
#pragma GCC unroll 2
      for (int j = 0; j < kSliceVecs; ++j) {
        b[j] = block.shifted(x.v[half * kSliceVecs + j], j);
      }
      accumulate<kRows>(a + (half - kFrom) * kRows, b, acc[s]);
    }
  }
}

// Folds the sums of one k block into the results and starts the next; without scales the sums just go on.
template <int kType, WeightMode kMode, int kRows, int kSlices>
SG_INLINE void finish_block(const DotJob& job, int64_t row, F (&acc)[kSlices][kRows][kSliceVecs]) {
#pragma GCC unroll 4
  for (int s = 0; s < kSlices; ++s) {
    const BlockScale<kType, kMode, kSliceVecs> block(job.slices[s], row, job.columns[s]);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#if SG_CPU_AVX512
      if constexpr (splits_columns(kType, kMode)) {
        interleave_columns(acc[s][r][0], acc[s][r][1]);
      }
#endif
#pragma GCC unroll 2
      for (int j = 0; j < kSliceVecs; ++j) {
        float* const sum = job.sums[s] + r * kGroup + j * kLanes;
        store(sum, fma(acc[s][r][j], block.scale[j], load(sum)));
        acc[s][r][j] = zero();
      }
    }
  }
}

template <int kType, WeightMode kMode, int kRows, int kSlices>
inline void dot_slices(const DotJob& job) {
  constexpr int kStep = is_4bit(kType) ? 2 : 1;
  F acc[kSlices][kRows][kSliceVecs];
#pragma GCC unroll 32
  for (int i = 0; i < kSlices * kRows * kSliceVecs; ++i) {
    const int s = i / (kRows * kSliceVecs), r = i / kSliceVecs % kRows, j = i % kSliceVecs;
    acc[s][r][j] = kMode == kPlain ? load(job.sums[s] + r * kGroup + j * kLanes) : zero();
  }
  const float* a = job.a;
  int64_t offset = 0;
  int64_t row = 0;
  for (int64_t k = job.k0; k < job.k1; ++row) {
    const int64_t end = least(job.k1, (k / job.block_k + 1) * job.block_k);
    if (kStep == 2 && k % 2 == 1) {
      dot_step<kType, kMode, kRows, kSlices, kStep - 1, kStep>(job, a, offset, row, acc);
      ++k, a += kRows, offset += kGroup;
    }
    for (; k + kStep <= end; k += kStep, a += kStep * kRows, offset += group_bytes(kType)) {
      dot_step<kType, kMode, kRows, kSlices, 0, kStep>(job, a, offset, row, acc);
    }
    if (kStep == 2 && k < end) {
      dot_step<kType, kMode, kRows, kSlices, 0, 1>(job, a, offset, row, acc);
      ++k, a += kRows;
    }
    if constexpr (kMode != kPlain) {
      finish_block<kType, kMode, kRows, kSlices>(job, row, acc);
    }
  }
  if constexpr (kMode == kPlain) {
#pragma GCC unroll 32
    for (int i = 0; i < kSlices * kRows * kSliceVecs; ++i) {
      const int s = i / (kRows * kSliceVecs), r = i / kSliceVecs % kRows, j = i % kSliceVecs;
      store(job.sums[s] + r * kGroup + j * kLanes, acc[s][r][j]);
    }
  }
}

// Run-time number of slices, at most kSlices and a power of two.
template <int kType, WeightMode kMode, int kRows, int kSlices = dot_slices(kRows)>
inline void run_dot_slices(int slices, const DotJob& job) {
  if constexpr (kSlices > 1) {
    if (slices < kSlices) {
      return run_dot_slices<kType, kMode, kRows, kSlices / 2>(slices, job);
    }
  }
  dot_slices<kType, kMode, kRows, kSlices>(job);
}

template <int kType, WeightMode kMode>
inline void run_dot(int rows, int slices, const DotJob& job) {
  switch (rows) {
    case 1:
      return run_dot_slices<kType, kMode, 1>(slices, job);
    case 2:
      return run_dot_slices<kType, kMode, 2>(slices, job);
    case 3:
      return run_dot_slices<kType, kMode, 3>(slices, job);
    default:
      return run_dot_slices<kType, kMode, 4>(slices, job);
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_F32_DOT_H_
