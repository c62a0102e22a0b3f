// Geometry of the int8-dot kernels: how K is cut into segments, M into row tiles and D into units. Everything
// follows from the sizes and types of a SgGemm, so every phase computes it again.
//
// Segment: a run of K inside which both scales are constant: the greatest common divisor of the two block_k
// (a block of all of K does not count). One int32 sum a segment; it is exact while
//
//   |sum a*(b - zero)| <= 128 * 128 * k < 2^31  for k <= 131071   (no zero points)
//                      <= 128 * 255 * k < 2^31  for k <=  65793   (int8 zero points)
//
// so a longer K without block scales is cut into segments of 65536 (kI8CutK).
//
// Row tile: at most kMaxRows rows, all tiles of nearly the same height (M = 16 is 8 + 8): M padded to even is
// shared out in pairs of rows. M <= 4 is one tile of 1, 2 or 4 rows.
//
// Unit: one batch index, unit_panels panels of 16 columns, a chunk of at most kChunkTiles row tiles.
#ifndef SCALEGEMM_KERNELS_CPU_I8_PLAN_H_
#define SCALEGEMM_KERNELS_CPU_I8_PLAN_H_

#include "common/panels.h"
#include "cpu/i8_codes.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kMaxRows = SG_CPU_AVX512 ? 14 : 6;
constexpr int kSmallRows = 4;
constexpr int64_t kChunkTiles = 16;
constexpr int kMaxUnitPanels = 4;

// What a segment's sum is multiplied by inside the K loop; what is constant along K waits for the end.
enum class I8Mode { kWhole, kColumn, kBoth };  // nothing (one segment) | scale of B | scales of A and B

inline int64_t i8_common_block(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// block_k of scales or zero points that change along K; 0 where nothing does.
inline int64_t i8_varying_block(const SgOperand& x, int64_t k) {
  const int64_t block = x.scale.data ? x.scale.block_k : x.zero.data ? x.zero.block_k : k;
  return block >= k ? 0 : block;
}

// The longest K whose integer sum always fits int32, and what a longer K is cut to.
constexpr int64_t kI8CutK = 65536;
inline int64_t i8_longest_sum(const SgGemm& g) {
  return g.b.zero.data ? kI8CutK : 131071;
}

// k of one segment.
inline int64_t i8_segment_k(const SgGemm& g, int64_t step) {
  const int64_t block = i8_common_block(i8_varying_block(g.a, g.k), i8_varying_block(g.b, g.k));
  if (block != 0) {
    return block;
  }
  return g.k <= i8_longest_sum(g) ? sg_round_up(g.k, step) : kI8CutK;
}

struct I8Plan {
  I8Mode mode;
  int64_t segment_k, segments;
  int64_t segment_steps, last_steps, steps;
  int64_t row_bytes;                // of one row of prepared A
  int64_t tiles, tall, short_rows;  // `tall` tiles of short_rows + 2 rows come first
  int64_t rows;                     // all rows, padding included
  int64_t panels, unit_panels, groups, chunks, chunk_tiles;
  int64_t flush_steps;  // AVX2, 4-bit weights: steps a 16-bit sum holds

  int64_t tile_row(int64_t tile) const { return tile * short_rows + 2 * (tile < tall ? tile : tall); }
  int64_t tile_rows(int64_t tile) const { return short_rows + (tile < tall ? 2 : 0); }
};

template <int kB>
inline I8Plan i8_plan(const SgGemm& g) {
  I8Plan p;
  const int64_t step = i8_step_k(kB);
  p.segment_k = i8_segment_k(g, step);
  p.segments = ceil_div(g.k, p.segment_k);
  p.segment_steps = p.segment_k / step;
  p.last_steps = ceil_div(g.k - (p.segments - 1) * p.segment_k, step);
  p.steps = (p.segments - 1) * p.segment_steps + p.last_steps;
  p.mode = i8_varying_block(g.a, g.k) != 0 && g.a.scale.data ? I8Mode::kBoth
           : p.segments > 1                                  ? I8Mode::kColumn
                                                             : I8Mode::kWhole;
  p.row_bytes = p.steps * i8_groups(kB) * 4;
  p.flush_steps = i8_flush_steps(kB, i8_max_a(g.a.dtype, g.a.zero.data != nullptr));

  if (g.m <= kSmallRows) {
    p.tiles = 1;
    p.tall = 0;
    p.short_rows = g.m == 3 ? 4 : g.m;
  } else {
    const int64_t pairs = ceil_div(g.m, 2);
    p.tiles = ceil_div(pairs, kMaxRows / 2);
    p.tall = pairs % p.tiles;
    p.short_rows = pairs / p.tiles * 2;
  }
  p.rows = p.tiles * p.short_rows + 2 * p.tall;

  p.panels = ceil_div(g.n, kPanelColumns);
  p.unit_panels = p.panels >= 32 ? kMaxUnitPanels : 2;
  p.groups = ceil_div(p.panels, p.unit_panels);
  p.chunks = ceil_div(p.tiles, kChunkTiles);
  p.chunk_tiles = ceil_div(p.tiles, p.chunks);
  return p;
}

// Prepared A of one batch index in the workspace. Tiles follow each other; [..][rows of the tile] inside one.
struct I8Prepared {
  uint8_t* codes;  // [tile][group][row][4 bytes]
  int32_t* sums;   // [tile][segment][row]: -bias * sum of a, or -sum of a when B has zero points
  float* scales;   // [tile][segment][row], kBoth only
  float* factors;  // [row]: what is constant along K
};

inline int64_t i8_prepared_bytes(const I8Plan& p) {
  const int64_t scales = p.mode == I8Mode::kBoth ? p.segments : 0;
  return sg_round_up(p.rows * p.row_bytes, 64) + sg_round_up(p.rows * (p.segments + scales + 1) * 4, 64);
}

inline I8Prepared i8_prepared(const SgGemm& g, const I8Plan& p, int64_t batch) {
  uint8_t* base = static_cast<uint8_t*>(g.workspace) + batch * i8_prepared_bytes(p);
  I8Prepared out;
  out.codes = base;
  out.sums = reinterpret_cast<int32_t*>(base + sg_round_up(p.rows * p.row_bytes, 64));
  out.factors = reinterpret_cast<float*>(out.sums + p.rows * p.segments);
  out.scales = out.factors + p.rows;
  return out;
}

// Are the weights' scales and zero points used where they lie? (Few rows read them once; many rows want them
// as f32, once a unit.)
inline bool i8_direct_scales(const SgGemm& g, const I8Plan& p) {
  return g.b.packed && g.b.scale.data && g.m <= kSmallRows && i8_varying_block(g.b, g.k) == p.segment_k;
}

// One thread's memory in compute: panels made from raw weights, their scales and zero points.
struct I8Scratch {
  int64_t panel_bytes, scale_bytes, zero_bytes;  // of one panel
};

template <int kB>
inline I8Scratch i8_scratch(const SgGemm& g, const I8Plan& p) {
  const bool direct = i8_direct_scales(g, p);
  I8Scratch s;
  // Raw panels are made 32 bytes of K at a time.
  s.panel_bytes = g.b.packed ? 0 : kPanelColumns * sg_round_up(is_4bit(kB) ? p.steps * 4 : g.k, 32);
  s.scale_bytes = direct || p.mode == I8Mode::kWhole ? 0 : p.segments * kPanelColumns * 4;
  s.zero_bytes = direct || !g.b.zero.data ? 0 : sg_round_up(p.segments * kPanelColumns, 64);
  return s;
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_PLAN_H_
