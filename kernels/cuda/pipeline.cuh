// The ring of stages between the loading warpgroup and the consumers.
//
//   stage s:  | X tile: tile_x x 128 B | Y tile: tile_y x 128 B |   128-byte swizzle, 1,024-byte aligned
//             | scales of X | scales of Y |                         block-scaled kernels only, fp32
//   full[s]   partner of the consumers' wait: one arrive.expect_tx by the TMA thread; TMA completes the
//             bytes. Strided scales: 32 more arrivals by the lanes of the scale warp, each when its copies
//             have landed.
//   empty[s]  partner of the loaders' wait: one arrival by each reading warp of each CTA that receives
//             the stage.
#pragma once
#include "cuda/abi.h"
#include "cuda/gemm_config.cuh"
#include "cuda/ptx.cuh"

namespace scalegemm::cuda {

// Row groups of 128 that a tile of `rows` rows touches; one more when tiles do not line up with groups.
SG_CONSTEXPR bool groups_line_up(u32 rows) {
  return rows % 128 == 0 || 128 % rows == 0;
}
SG_CONSTEXPR u32 groups_of(u32 rows) {
  return groups_line_up(rows) ? ceil_div(rows, 128) : ceil_div(rows - 8, 128) + 1;
}
// Words of a stage for one K block's scales: one a row, or for each group of 128 rows four K blocks' (16
// bytes, the least TMA moves; the block's own is word block % 4).
SG_CONSTEXPR u32 scale_words(Scale s, u32 rows) {
  return s == Scale::kBlock1 ? align_up(rows, 4) : s == Scale::kBlock128 ? 4 * groups_of(rows) : 0;
}

constexpr u32 kSharedLimit = 227 * 1024;  // bytes one CTA can have on sm_90

template <GemmConfig c>
struct StageLayout {
  static constexpr u32 kX = c.tile_x * kStepBytes;
  static constexpr u32 kY = c.tile_y * kStepBytes;
  static constexpr u32 kBytes = kX + kY;
  static constexpr u32 kWordsX = scale_words(c.scale_x(), c.tile_x);  // scales of one K block
  static constexpr u32 kWordsY = scale_words(c.scale_y(), c.tile_y);
  // K blocks that a stage keeps apart: e8m0 codes of a step lie in one word.
  static constexpr u32 kPartsX = c.e8m0_x() ? 1 : c.parts(), kPartsY = c.e8m0_y() ? 1 : c.parts();
  static constexpr u32 kScaleBytes = 4 * (kPartsX * kWordsX + kPartsY * kWordsY);
  // Shared memory from the start: operand stages, scale stages, barriers, then `kFree` for the kernel's own
  // use.
  static constexpr u32 kScales = c.stages * kBytes;
  static constexpr u32 kBarriers = kScales + c.stages * kScaleBytes;
  static constexpr u32 kFree = align_up(kBarriers + 16 * c.stages, 128);
};

// Where a loader or a consumer stands in the ring.
template <GemmConfig c>
struct Ring {
  using Layout = StageLayout<c>;
  u32 base;
  u32 stage = 0, phase = 0;

  SG_DEVICE explicit Ring(u32 shared_base) : base(shared_base) {}
  SG_DEVICE void advance() {
    if (++stage == c.stages)
      stage = 0, phase ^= 1;
  }
  SG_DEVICE void skip(u32 steps) {
    const u32 to = stage + steps, laps = to / c.stages;
    stage = to - laps * c.stages, phase ^= laps & 1;
  }
  SG_DEVICE u32 x() const { return base + stage * Layout::kBytes; }
  SG_DEVICE u32 y() const { return x() + Layout::kX; }
  SG_DEVICE u32 scales_x(u32 part) const {
    return base + Layout::kScales + stage * Layout::kScaleBytes +
           4 * (part % Layout::kPartsX) * Layout::kWordsX;
  }
  SG_DEVICE u32 scales_y(u32 part) const {
    return base + Layout::kScales + stage * Layout::kScaleBytes +
           4 * (Layout::kPartsX * Layout::kWordsX + part % Layout::kPartsY * Layout::kWordsY);
  }
  SG_DEVICE u32 full() const { return base + Layout::kBarriers + 16 * stage; }
  SG_DEVICE u32 empty() const { return full() + 8; }
  SG_DEVICE void wait_full() const { mbarrier_wait(full(), phase); }
  SG_DEVICE void wait_empty() const { mbarrier_wait(empty(), phase ^ 1); }

  SG_DEVICE void init_barriers() const {
    for (u32 s = 0; s < c.stages; ++s) {
      const u32 bar = base + Layout::kBarriers + 16 * s;
      mbarrier_init(bar, 1 + (c.strided_scales ? kWarp : 0));
      mbarrier_init(bar + 8, c.readers() * (kWarpgroup / kWarp) * c.cluster());
    }
    mbarrier_init_fence();
  }
  // One arrival of this warp at the empty barrier of stage `s`, in every CTA that multicasts into it.
  SG_DEVICE void release(u32 s, u32 thread) const {
    const u32 bar = base + Layout::kBarriers + 16 * s + 8, lane = thread % kWarp;
    if constexpr (c.block_scaled())
      __syncwarp();  // every lane's ordinary reads come first
    if constexpr (c.cluster() == 1) {
      if (lane == 0)
        mbarrier_arrive(bar);
    } else {
      if (lane < c.cluster())
        mbarrier_arrive_remote(bar, lane);
    }
  }
};

struct ScaleJob {
  SgTmaScale x, y;
  u32 rows_x, rows_y, blocks;  // blocks: scale blocks along K
};

// The scales of one operand's tile, as the TMA thread fetches them.
template <Scale kScale, u32 kRows>
struct ScaleFetch {
  static constexpr u32 kGroups = kScale == Scale::kBlock128 ? groups_of(kRows) : 0;
  const float* lines[kGroups + 1];  // one a group of 128 rows; of single rows, their first
  u32 bytes;                        // a K block

  SG_DEVICE ScaleFetch(const SgTmaScale& view, u32 row0, u32 rows) {
    if constexpr (kScale == Scale::kBlock1) {
      if (row0 >= rows)
        row0 = 0;  // a cluster's spare tile
      lines[0] = view.data + row0,
      bytes = 4 * min_of(kRows, view.stride_k - row0);  // the line's padding is read, nothing beyond
    } else if constexpr (kScale == Scale::kBlock128) {
      bytes = 16 * kGroups;
#pragma unroll
      for (u32 g = 0; g < kGroups; ++g)
        lines[g] = view.data + static_cast<u64>(min_of(row0 / 128 + g, (rows - 1) / 128)) * view.stride_row;
    } else {
      bytes = 0;
    }
  }
  SG_DEVICE void load(u32 dst, const SgTmaScale& view, u32 block, u32 bar) const {
    if constexpr (kScale == Scale::kBlock1)
      bulk_load(dst, lines[0] + static_cast<u64>(block) * view.stride_k, bytes, bar);
    if constexpr (kScale == Scale::kBlock128) {
#pragma unroll
      for (u32 g = 0; g < kGroups; ++g)
        bulk_load(dst + 16 * g, lines[g] + block / 4 * 4, 16, bar);
    }
  }
};

// K block of part `part` of step `step`; parts past the end of K repeat the last block and multiply zeros.
template <GemmConfig c>
SG_DEVICE u32 scale_block(u32 step, u32 part, u32 blocks) {
  return c.parts() == 1 ? step : min_of(step * c.parts() + part, blocks - 1);
}

struct Span {
  u32 x0, y0;    // first row of X and of Y
  u32 from, to;  // steps of K
};

// The TMA thread's work for one tile.
template <GemmConfig c>
SG_DEVICE void load_tiles(Ring<c>& ring, const TensorMap* map_x, const TensorMap* map_y, const ScaleJob& job,
                          const Span& span, u32 rank) {
  constexpr u32 kSliceX = c.tile_x / c.cluster_y, kSliceY = c.tile_y / c.cluster_x;
  constexpr u16 kAll = (1u << c.cluster()) - 1;
  constexpr bool kFetch = c.block_scaled() && !c.strided_scales;
  const ScaleFetch<kFetch ? c.scale_x() : Scale::kNone, c.tile_x> scales_x(job.x, span.x0, job.rows_x);
  const ScaleFetch<kFetch ? c.scale_y() : Scale::kNone, c.tile_y> scales_y(job.y, span.y0, job.rows_y);
  const u32 bytes = StageLayout<c>::kBytes + c.parts() * (scales_x.bytes + scales_y.bytes);
  for (u32 step = span.from; step < span.to; ++step, ring.advance()) {
    ring.wait_empty();
    mbarrier_arrive_expect(ring.full(), bytes);
    const u32 k = step * c.step_k();
    if constexpr (c.cluster_y > 1)
      tma_load_multicast(ring.x() + rank * kSliceX * kStepBytes, map_x, ring.full(), k,
                         span.x0 + rank * kSliceX, kAll);
    else
      tma_load(ring.x(), map_x, ring.full(), k, span.x0);
    if constexpr (c.cluster_x > 1)
      tma_load_multicast(ring.y() + rank * kSliceY * kStepBytes, map_y, ring.full(), k,
                         span.y0 + rank * kSliceY, kAll);
    else
      tma_load(ring.y(), map_y, ring.full(), k, span.y0);
#pragma unroll
    for (u32 part = 0; part < c.parts(); ++part) {
      scales_x.load(ring.scales_x(part), job.x, scale_block<c>(step, part, job.blocks), ring.full());
      scales_y.load(ring.scales_y(part), job.y, scale_block<c>(step, part, job.blocks), ring.full());
    }
  }
}

// Of e8m0 scales the words of four K blocks are what is copied.
SG_DEVICE SgTmaScale words_of(const SgTmaScale& codes) {
  return {codes.data, codes.stride_row / 4, 1};
}

// One lane's part of copying strided scales, one K block (e8m0: word) at a time. The row offsets are found
// once a tile, so that a block costs few instructions; rows past the end repeat the last one and are never
// stored.
template <Scale kScale, u32 kRows, bool kE8m0>
struct ScaleCopier {
  static constexpr u32 kCount = kScale == Scale::kBlock1     ? kRows
                                : kScale == Scale::kBlock128 ? groups_of(kRows)
                                                             : 0;
  static constexpr u32 kEach = ceil_div(kCount, kWarp);
  u32 offsets[kEach + 1];

  SG_DEVICE ScaleCopier(const SgTmaScale& view, u32 row0, u32 rows, u32 lane) {
#pragma unroll
    for (u32 e = 0; e + 1 < kEach + 1; ++e) {
      const u32 i = e * kWarp + lane;
      offsets[e] = kScale == Scale::kBlock1 ? min_of(row0 + i, rows - 1) * view.stride_row
                                            : min_of(row0 / 128 + i, (rows - 1) / 128) * view.stride_row;
    }
  }
  SG_DEVICE void copy(u32 dst, const SgTmaScale& view, u32 block, u32 lane) const {
    const float* from = view.data + static_cast<u64>(block) * view.stride_k;
#pragma unroll
    for (u32 e = 0; e + 1 < kEach + 1; ++e) {
      const u32 i = e * kWarp + lane;
      if (kCount % kWarp == 0 || i < kCount)
        cp_async_4(dst + 4 * (kScale == Scale::kBlock1 ? i
                              : kE8m0                  ? 4 * i
                                                       : 4 * i + block % 4),
                   from + offsets[e], true);
    }
  }
};

// The scale warp's work for one tile: strided scales only.
template <GemmConfig c>
SG_DEVICE void copy_scales(Ring<c>& ring, const ScaleJob& job, const Span& span, u32 lane) {
  const SgTmaScale x = c.e8m0_x() ? words_of(job.x) : job.x, y = c.e8m0_y() ? words_of(job.y) : job.y;
  const ScaleCopier<c.scale_x(), c.tile_x, c.e8m0_x()> copier_x(x, span.x0, job.rows_x, lane);
  const ScaleCopier<c.scale_y(), c.tile_y, c.e8m0_y()> copier_y(y, span.y0, job.rows_y, lane);
  for (u32 step = span.from; step < span.to; ++step, ring.advance()) {
    ring.wait_empty();
#pragma unroll
    for (u32 part = 0; part < c.parts(); ++part) {
      const u32 block = scale_block<c>(step, part, job.blocks);
      if (part < StageLayout<c>::kPartsX)
        copier_x.copy(ring.scales_x(part), x, c.e8m0_x() ? block / 4 : block, lane);
      if (part < StageLayout<c>::kPartsY)
        copier_y.copy(ring.scales_y(part), y, c.e8m0_y() ? block / 4 : block, lane);
    }
    cp_async_arrive(ring.full());
  }
}

}  // namespace scalegemm::cuda
