// The f32 FMA family: any A x one compile-time type of B, in f32.
//
//   prepare   A -> f32 row panels in the workspace (f32_rows.h), once a call
//   compute   M > 4: a unit is a block of rows x a few panels of 32 columns
//               for each chunk of kChunk k, for each panel:
//                 decode the panel's chunk to f32       kChunk x 32 f32 = 32 KB, stays in L1/L2
//                 for each row tile: FMA micro-kernel   A: kBlockRows x kChunk f32 <= 504 KB in L2
//                 after the last chunk: epilogue of the tile
//               partial sums between chunks: kBlockRows x 32 f32 a panel
//             M <= 4: a unit is the columns that one fused decode-and-multiply kernel advances together
//
// Decoding costs a few cycles per vector and is paid once per kBlockRows rows: 1-3 % at M >= 128.
// Bits: every element of D is one FMA chain over ascending k of a(m,k)*b(n,k), then the epilogue. So it does
// not depend on M, N, threads, ISA, packing or layout. The M <= 4 route does the same per k block of the
// scales (f32_dot.h); `batch_invariant` turns that route off.
//
// Limits: int32 output is exact only while sums stay below 2^24. The workspace is batch*M*K f32.
#ifndef SCALEGEMM_KERNELS_CPU_F32_GEMM_H_
#define SCALEGEMM_KERNELS_CPU_F32_GEMM_H_

#include "cpu/f32_dot.h"
#include "cpu/f32_rows.h"
#include "cpu/f32_tile.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// Cache blocking of the M > 4 route.
template <int kChunkK = 256, int kRowsInBlock = 504, int kPanels = 4>
struct F32Blocking {
  static_assert(kChunkK % 2 == 0, "a chunk must not split a byte of 4-bit codes");
  static constexpr int64_t kChunk = kChunkK;
  static constexpr int64_t kBlockRows = kRowsInBlock;
  static constexpr int64_t kUnitPanels = kPanels;
};

template <int kBType, class Blocking = F32Blocking<>>
class F32Gemm {
 public:
  static uint64_t workspace_bytes(const SgGemm* g) {
    return static_cast<uint64_t>(sg_round_up(g->batch * g->m * g->k * 4, 64));
  }

  static uint64_t scratch_bytes(const SgGemm* g) {
    const int64_t compute_bytes = is_thin(*g) ? thin_scratch(*g) : block_scratch(*g);
    const int64_t prepare_bytes = tiles(*g).size(0) * row_scratch_bytes(Blocking::kChunk);
    const int64_t most = compute_bytes > prepare_bytes ? compute_bytes : prepare_bytes;
    return static_cast<uint64_t>(sg_round_up(most, 64));
  }

  static int64_t prepare_units(const SgGemm* g) {
    return g->batch * tiles(*g).count * ceil_div(g->k, Blocking::kChunk);
  }

  static void prepare(const SgGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    prepare_range(*g, begin, end, static_cast<float*>(scratch));
  }

  static int64_t compute_units(const SgGemm* g) {
    if (is_thin(*g)) {
      return g->batch * ceil_div(panels(*g), thin_panels(*g));
    }
    const BlockUnits u = units(*g);
    return g->batch * u.columns.count * u.rows.count;
  }

  static void compute(const SgGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    uint8_t* memory = static_cast<uint8_t*>(scratch);
    switch (Weights<kBType>::mode(*g)) {
      case kPlain:
        return compute_range<kPlain>(*g, begin, end, memory);
      case kScaled:
        return compute_range<kScaled>(*g, begin, end, memory);
      case kZeroed:
        return compute_range<kZeroed>(*g, begin, end, memory);
    }
  }

 private:
  static constexpr int64_t kThinChunk = 512;

  static bool is_thin(const SgGemm& g) { return g.m <= kDotRows && !g.batch_invariant; }
  static int64_t panels(const SgGemm& g) { return ceil_div(g.n, kGroup); }
  static EvenCut tiles(const SgGemm& g) {
    return EvenCut::of_at_most(g.m, is_thin(g) ? kDotRows : kTileRows);
  }
  // The panel of A for rows from m on and the chunk [k0, k1).
  static float* panel_of(const SgGemm& g, int64_t batch, int64_t m, int64_t k0, int64_t k1) {
    return static_cast<float*>(g.workspace) + batch * g.m * g.k + g.m * k0 + m * (k1 - k0);
  }

  static BlockUnits units(const SgGemm& g) {
    return BlockUnits::of(g.batch, panels(g), tiles(g).count,
                          {Blocking::kUnitPanels, Blocking::kBlockRows / kTileRows});
  }

  static void prepare_range(const SgGemm& g, int64_t begin, int64_t end, float* scratch) {
    const EvenCut cut = tiles(g);
    const int64_t chunks = ceil_div(g.k, Blocking::kChunk);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t k0 = unit % chunks * Blocking::kChunk;
      const int64_t k1 = least(k0 + Blocking::kChunk, g.k);
      const int64_t tile = unit / chunks % cut.count;
      const int64_t batch = unit / chunks / cut.count;
      float* const panel = panel_of(g, batch, cut.begin(tile), k0, k1);
      prepare_rows(RowDecoder(g, batch), cut, tile, k0, k1, panel, scratch);
    }
  }

  template <WeightMode kMode>
  static void compute_range(const SgGemm& g, int64_t begin, int64_t end, uint8_t* scratch) {
    for (int64_t unit = begin; unit < end; ++unit) {
      if (is_thin(g)) {
        compute_thin<kMode>(g, unit, scratch);
      } else {
        compute_block<kMode>(g, unit, scratch);
      }
    }
  }

  static int64_t block_scratch(const SgGemm& g) {
    const int64_t chunk = least(Blocking::kChunk, g.k);
    const BlockUnits u = units(g);
    const int64_t rows = u.rows.size(0) * tiles(g).size(0);
    return Weights<kBType>::scratch_bytes(g, chunk) + chunk * kGroup * 4 +
           u.columns.size(0) * rows * kGroup * 4;
  }

  // Units run down the rows of one column block first, while its weights are in cache.
  template <WeightMode kMode>
  static void compute_block(const SgGemm& g, int64_t unit, uint8_t* scratch) {
    const BlockUnits u = units(g);
    const EvenCut cut = tiles(g);
    const int64_t row_block = unit % u.rows.count;
    const int64_t column_block = unit / u.rows.count % u.columns.count;
    const int64_t batch = unit / u.rows.count / u.columns.count;
    const int64_t tile0 = u.rows.begin(row_block), tile1 = u.rows.begin(row_block + 1);
    const int64_t panel0 = u.columns.begin(column_block), panel1 = u.columns.begin(column_block + 1);
    const int64_t row0 = cut.begin(tile0), rows = cut.begin(tile1) - row0;

    const Weights<kBType> weights(g, batch);
    const int64_t chunk = least(Blocking::kChunk, g.k);
    const PanelScratch space = Weights<kBType>::carve(g, chunk, scratch);
    float* const b = reinterpret_cast<float*>(scratch + Weights<kBType>::scratch_bytes(g, chunk));
    float* const sums = b + chunk * kGroup;
    for (int64_t k0 = 0; k0 < g.k; k0 += chunk) {
      const int64_t k1 = least(k0 + chunk, g.k);
      for (int64_t panel = panel0; panel < panel1; ++panel) {
        decode_block<kBType, kMode>(weights.block(panel, k0, k1, space), k0, k1, weights.block_k(), b);
        const bool more = panel + 1 < panel1;
        for (int64_t tile = tile0; tile < tile1; ++tile) {
          // What is decoded next comes from memory while this panel is multiplied.
          weights.prefetch(more ? panel + 1 : panel0, more ? k0 : k1, chunk, tile - tile0, tile1 - tile0);
          const int64_t m = cut.begin(tile);
          const int size = static_cast<int>(cut.size(tile));
          float* const c = sums + ((panel - panel0) * rows + m - row0) * kGroup;
          run_tile(size, {panel_of(g, batch, m, k0, k1), b, c, k1 - k0, k0 == 0});
          if (k1 == g.k) {
            finish(g, batch, m, size, panel, c);
          }
        }
      }
    }
  }

  static void finish(const SgGemm& g, int64_t batch, int64_t m, int rows, int64_t panel, const float* sums) {
    const int64_t n = panel * kGroup;
    write_block(g, {batch, m, n, rows, static_cast<int>(least(g.n - n, kGroup))}, sums, kGroup);
  }

  // Panels of one M <= 4 unit.
  static int64_t thin_panels(const SgGemm& g) {
    const int64_t most = dot_slices(g.m) / kSlicesPerPanel;
    return most > 1 ? most : 1;
  }

  static int64_t thin_scratch(const SgGemm& g) {
    const int64_t chunk = least(kThinChunk, g.k);
    return thin_panels(g) * (Weights<kBType>::scratch_bytes(g, chunk) + g.m * kGroup * 4);
  }

  template <WeightMode kMode>
  static void compute_thin(const SgGemm& g, int64_t unit, uint8_t* scratch) {
    const int64_t groups = ceil_div(panels(g), thin_panels(g));
    const int64_t batch = unit / groups;
    const int64_t panel0 = unit % groups * thin_panels(g);
    const int count = static_cast<int>(least(panels(g) - panel0, thin_panels(g)));
    const int rows = static_cast<int>(g.m);

    const Weights<kBType> weights(g, batch);
    const int64_t chunk = least(kThinChunk, g.k);
    const int64_t space = Weights<kBType>::scratch_bytes(g, chunk);
    float* const sums = reinterpret_cast<float*>(scratch + count * space);
    for (int64_t i = 0; i < count * rows * kGroup; i += kLanes) {
      store(sums + i, zero());
    }
    for (int64_t k0 = 0; k0 < g.k; k0 += chunk) {
      const int64_t k1 = least(k0 + chunk, g.k);
      PanelBlock blocks[kMaxSlices];
      for (int p = 0; p < count; ++p) {
        blocks[p] = weights.block(panel0 + p, k0, k1, Weights<kBType>::carve(g, chunk, scratch + p * space));
      }
      DotJob job = {};
      job.a = panel_of(g, batch, 0, k0, k1);  // one tile: [k][rows] throughout
      job.k0 = k0;
      job.k1 = k1;
      job.block_k = weights.block_k();
      run_slices<kMode>(blocks, count, rows, sums, job);
    }
    for (int p = 0; p < count; ++p) {
      finish(g, batch, 0, rows, panel0 + p, sums + p * rows * kGroup);
    }
  }

  // All slices of `count` panels, as many at a time as there are registers for.
  template <WeightMode kMode>
  static void run_slices(const PanelBlock* blocks, int count, int rows, float* sums, DotJob& job) {
    const int all = count * kSlicesPerPanel;
    for (int first = 0; first < all;) {
      int size = dot_slices(rows);
      while (size > all - first) {
        size /= 2;
      }
      for (int s = 0; s < size; ++s) {
        const int panel = (first + s) / kSlicesPerPanel;
        const int column = (first + s) % kSlicesPerPanel * kSliceColumns;
        job.slices[s] = blocks[panel];
        job.slices[s].codes += column * storage_bytes(kBType);
        job.columns[s] = column;
        job.sums[s] = sums + panel * rows * kGroup + column;
      }
      run_dot<kBType, kMode>(rows, size, job);
      first += size;
    }
  }
};

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_F32_GEMM_H_
