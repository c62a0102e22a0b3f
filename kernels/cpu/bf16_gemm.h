// The bf16 dot family (VDPBF16PS): operands whose codes are bf16 numbers, two products an instruction.
//
//   prepare   A -> bf16 pairs (k, k+1) in row panels of the workspace, once a call; its scales -> f32
//   compute   M > 16: a unit is a block of rows x a few panels of 32 columns
//               for each chunk of kChunk k, for each panel:
//                 decode the panel's chunk to bf16 pairs          kChunk/2 x 32 x 4 bytes = 16 KB, in L1
//                 for each row tile, for each segment of K (scales of A and B constant):
//                   dot_tile: sums of the segment from zero, then C += sum * scale_a * scale_b in f32
//             M <= 16: a unit is the columns that one fused kernel of bf16_dot.h advances together
//
// Codes of e4m3, e5m2 (both flavours), e2m1, int8, int4, uint4, and their differences with zero points, are
// bf16 numbers (at most 8 significant bits), so products are exact and sums are f32 as in f32fma; scales
// multiply sums of a segment, never operands. The instruction takes subnormal operands and sums as zero: the
// products of those codes are at least 2^-34, so nothing is lost.
//
// bf16 activations may be anything. Those below kSmall are zero in the panel of A and stand, times kLift, in
// a second panel, whose sums are scaled by 1/kLift as well: what is left in either is at least 2^-100 and
// 2^-69, its products with codes at least 2^-117, and all sums are multiples of that, so none is subnormal.
// The second pass is run only for a tile and chunk that hold such elements, which prepare marks. It would
// make a NaN of 0 * infinity, so it serves types of B without infinity; bf16 itself as B, which has
// subnormals of its own, is served for Accuracy::kFast only, and e5m2 with bf16 activations not at all
// (src/arch says so).
//
// Tile: 14 rows x 32 columns, 28 accumulators, 2 of B, 1 of A: 31 registers. A pair of k: 28 instructions, 14
// broadcasts, 2 loads = 28 cycles where one 512-bit VDPBF16PS issues a cycle (Zen 4: twice the flops of FMA),
// 62 where its rate is 0.45 (Emerald Rapids: slower than FMA, and dispatch takes f32fma there). A segment
// end costs 28 x (multiply, FMA, load, store): 6 % at 128 k, 25 % at 32 k.
//
// Bits: a segment is one chain over ascending k, segments are added in order: independent of M, N, threads,
// packing and layout. The route for M <= 16 adds in the same order, but counts zero points apart;
// `batch_invariant` turns it off. Limits: block_k of A and B even (a pair has one scale); the workspace is
// batch * M * (2*K + 4*blocks of A) bytes, twice that for bf16 activations.
#ifndef SCALEGEMM_KERNELS_CPU_BF16_GEMM_H_
#define SCALEGEMM_KERNELS_CPU_BF16_GEMM_H_

#include "cpu/bf16_dot.h"
#include "cpu/f32_rows.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kPairTileRows = 14;
constexpr int kPairTileColumns = kGroup;

// c[i][j] += row_scale[i] * column_scale[j] * sum over pairs of a[p*rows + i] . b[p*32 + j], or = when fresh.
struct PairTileJob {
  const uint32_t* a;
  const uint32_t* b;
  float* c;
  const float* row_scale;
  const float* column_scale;
  int64_t pairs;
  int fresh;
};

template <int kRows>
__attribute__((noinline)) void pair_tile(const PairTileJob& job) {
  F acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    acc[i][0] = zero();
    acc[i][1] = zero();
  }
  const uint32_t* a = job.a;
  const uint32_t* b = job.b;
  for (int64_t p = 0; p < job.pairs; ++p, a += kRows, b += kGroup) {
    const I b0 = iload(b), b1 = iload(b + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const I x = iset1(static_cast<int32_t>(a[i]));
      acc[i][0] = dot_pair(acc[i][0], x, b0);
      acc[i][1] = dot_pair(acc[i][1], x, b1);
    }
  }
  const F s0 = load(job.column_scale), s1 = load(job.column_scale + kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    // The scale of A first: a product of two extreme scales may not be an f32 although the result is.
    const F row = set1(job.row_scale[i]);
    float* const c = job.c + i * kGroup;
    const F x0 = mul(acc[i][0], row), x1 = mul(acc[i][1], row);
    store(c, job.fresh ? mul(x0, s0) : fma(x0, s0, load(c)));
    store(c + kLanes, job.fresh ? mul(x1, s1) : fma(x1, s1, load(c + kLanes)));
  }
}

template <int kRows = kPairTileRows>
inline void run_pair_tile(int rows, const PairTileJob& job) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return run_pair_tile<kRows - 1>(rows, job);
    }
  }
  pair_tile<kRows>(job);
}

template <int kBType, int kChunkK = 256>
class Bf16Gemm {
 public:
  static uint64_t workspace_bytes(const SgGemm* g) {
    return static_cast<uint64_t>(Workspace(*g).words(*g)) * 4;
  }

  static uint64_t scratch_bytes(const SgGemm* g) {
    const int64_t rows = 2 * row_scratch_bytes(kChunkK);
    const int64_t compute_bytes = is_thin(*g) ? thin_scratch(*g) : block_scratch(*g);
    return static_cast<uint64_t>(sg_round_up(compute_bytes > rows ? compute_bytes : rows, 64));
  }

  static int64_t prepare_units(const SgGemm* g) {
    return g->batch * tiles(*g).count * ceil_div(g->k, kChunkK);
  }

  static void prepare(const SgGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    for (int64_t unit = begin; unit < end; ++unit) {
      prepare_unit(*g, unit, static_cast<float*>(scratch));
    }
  }

  static int64_t compute_units(const SgGemm* g) {
    if (is_thin(*g)) {
      return g->batch * ceil_div(panels16(*g), thin_panels(*g));
    }
    const BlockUnits u = units(*g);
    return g->batch * u.columns.count * u.rows.count;
  }

  static void compute(const SgGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    for (int64_t unit = begin; unit < end; ++unit) {
      uint8_t* const memory = static_cast<uint8_t*>(scratch);
      switch (Weights<kBType>::mode(*g)) {
        case kPlain:
          compute_unit<kPlain>(*g, unit, memory);
          break;
        case kScaled:
          compute_unit<kScaled>(*g, unit, memory);
          break;
        case kZeroed:
          compute_unit<kZeroed>(*g, unit, memory);
          break;
      }
    }
  }

 private:
  static constexpr int kStep = pair_step_k(kBType), kStepPairs = step_pairs(kBType);
  static constexpr int kApart = pair_distance(kBType);  // of the two k of a pair
  static_assert(kChunkK % kStep == 0, "a chunk must not split a step");
  static constexpr int kThinChunks =
      is_4bit(kBType) ? 4 : 2;  // chunks that M <= 16 takes at once: 8 KB a panel
  static constexpr int kThinK = kThinChunks * kChunkK;
  static constexpr int64_t kBlockRows = 504;
  static constexpr int64_t kUnitPanels = 4;
  static constexpr float kSmall = 0x1p-100f, kLift = 0x1p64f;

  // Is A split into elements of at least kSmall and the rest?
  static bool splits(const SgGemm& g) {
    return g.a.dtype == SG_BF16 && kBType != SG_BF16 && kBType != SG_E5M2;
  }
  static bool is_thin(const SgGemm& g) {
    return has_pair_table(kBType) && g.m <= kPairDotRows && !g.batch_invariant;
  }

  static EvenCut tiles(const SgGemm& g) {
    return EvenCut::of_at_most(g.m, is_thin(g) ? kPairDotRows : kPairTileRows);
  }
  static BlockUnits units(const SgGemm& g) {
    return BlockUnits::of(g.batch, ceil_div(g.n, kGroup), tiles(g).count,
                          {kUnitPanels, kBlockRows / kPairTileRows});
  }
  static int64_t a_block_k(const SgGemm& g) {
    const bool blocks = g.a.scale.data || g.a.zero.data;
    return blocks && g.a.scale.block_k >= 1 ? g.a.scale.block_k : g.k;
  }

  // Pairs of `depth` k, whole steps of them.
  static int64_t pair_count(int64_t depth) { return ceil_div(depth, kStep) * kStepPairs; }

  // Rows of A in the workspace.
  static int64_t a_rows(const SgGemm& g) { return is_thin(g) ? padded_rows(g.m) : g.m; }

  // Sections of the workspace, in words of 4 bytes, from the sizes and types alone: pairs and scales of every
  // batch index; the same once more for small elements; a flag a tile and chunk that holds any.
  struct Workspace {
    int64_t panel, scale, parts, flags;

    explicit Workspace(const SgGemm& g) {
      const int64_t block = g.a.scale.block_k >= 1 ? g.a.scale.block_k : g.k;
      panel = sg_round_up(a_rows(g) * pair_count(g.k), 16);
      scale = sg_round_up(a_rows(g) * ceil_div(g.k, block), 16);
      parts = splits(g) ? 2 : 1;
      flags = splits(g) ? prepare_units(&g) : 0;
    }
    int64_t words(const SgGemm& g) const { return parts * g.batch * (panel + scale) + flags; }
  };
  // Pairs of rows from m on in the chunk [k0, k1); part 1 holds the small elements.
  struct APart {
    int64_t batch, part;
  };
  static uint32_t* panel_of(const SgGemm& g, APart of, int64_t m, int64_t k0, int64_t k1) {
    uint32_t* const base =
        static_cast<uint32_t*>(g.workspace) + (of.part * g.batch + of.batch) * Workspace(g).panel;
    return base + a_rows(g) * (k0 / 2) + m * pair_count(k1 - k0);
  }
  // Scales of k block 0: [k block][m].
  static float* scales_of(const SgGemm& g, APart of) {
    const Workspace w(g);
    return static_cast<float*>(g.workspace) + w.parts * g.batch * w.panel +
           (of.part * g.batch + of.batch) * w.scale;
  }
  static int32_t* flags_of(const SgGemm& g) {
    const Workspace w(g);
    return static_cast<int32_t*>(g.workspace) + w.parts * g.batch * (w.panel + w.scale);
  }
  // How many parts of A a tile has in [k0, k1), whole chunks.
  static int64_t parts_of(const SgGemm& g, int64_t batch, int64_t tile, int64_t k0, int64_t k1) {
    const int64_t unit = (batch * tiles(g).count + tile) * ceil_div(g.k, kChunkK) + k0 / kChunkK;
    bool small = false;
    for (int64_t i = 0; splits(g) && i < ceil_div(k1 - k0, kChunkK); ++i) {
      small |= flags_of(g)[unit + i] != 0;
    }
    return small ? 2 : 1;
  }

  static bool has_small(const float* x, int64_t depth) {
    bool any = false;
    for (int64_t k = 0; k < depth; ++k) {
      const float size = __builtin_fabsf(x[k]);
      any |= size < kSmall && size > 0;
    }
    return any;
  }

  // The small elements of a row, lifted; they are zero in x afterwards.
  static void move_small(float* x, int64_t depth, float* small) {
    for (int64_t k = 0; k < depth; ++k) {
      const float size = __builtin_fabsf(x[k]);
      const bool moves = size < kSmall && size > 0;
      small[k] = moves ? x[k] * kLift : 0.0f;
      x[k] = moves ? 0.0f : x[k];
    }
  }

  // Row i of a panel; x is readable for whole steps.
  static void write_pairs(const float* x, int64_t depth, int64_t rows, int64_t i, uint32_t* panel) {
    const uint32_t* bits = reinterpret_cast<const uint32_t*>(x);
    for (int64_t step = 0; step < pair_count(depth) / kStepPairs; ++step, bits += kStep) {
#pragma GCC unroll 4
      for (int p = 0; p < kStepPairs; ++p) {
        const int k = pair_k(kBType, p);
        panel[(step * kStepPairs + p) * rows + i] = (bits[k + kApart] & 0xffff0000u) | bits[k] >> 16;
      }
    }
  }

  static void prepare_unit(const SgGemm& g, int64_t unit, float* scratch) {
    const EvenCut cut = tiles(g);
    const int64_t chunks = ceil_div(g.k, kChunkK);
    const int64_t chunk = unit % chunks;
    const int64_t tile = unit / chunks % cut.count;
    const int64_t batch = unit / chunks / cut.count;
    const int64_t k0 = chunk * kChunkK, k1 = least(k0 + kChunkK, g.k), depth = k1 - k0;
    const int64_t m0 = cut.begin(tile), real = cut.size(tile);
    const int64_t rows = is_thin(g) ? a_rows(g) : real;
    const RowDecoder decoder(g, batch);
    uint32_t* const panel = panel_of(g, {batch, 0}, m0, k0, k1);
    float* const lifted = scratch + row_pitch(kChunkK);
    uint32_t* const second = splits(g) ? panel_of(g, {batch, 1}, m0, k0, k1) : nullptr;
    bool small = false, blank = false;
    const auto clear_second = [&] {
      if (!blank) {
        __builtin_memset(second, 0, static_cast<size_t>(rows * pair_count(depth)) * 4);
      }
      blank = true;
    };
    if (splits(g) && is_thin(g)) {
      clear_second();  // several chunks are looked at together
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (i < real) {
        decoder.decode_unscaled(m0 + i, k0, k1, scratch);
      } else {
        __builtin_memset(scratch, 0, static_cast<size_t>(depth) * 4);
      }
      for (int64_t k = depth; k < 2 * pair_count(depth); ++k) {
        scratch[k] = lifted[k] = 0.0f;
      }
      if (splits(g) && has_small(scratch, depth)) {
        clear_second();
        small = true;
        move_small(scratch, depth, lifted);
        write_pairs(lifted, depth, rows, i, second);
      }
      write_pairs(scratch, depth, rows, i, panel);
    }
    if (splits(g)) {
      flags_of(g)[unit] = small;
    }
    for (int64_t part = 0; chunk == 0 && part < Workspace(g).parts; ++part) {
      float* const scales = scales_of(g, {batch, part});
      for (int64_t block = 0; block < ceil_div(g.k, a_block_k(g)); ++block) {
        for (int64_t i = 0; i < rows; ++i) {
          const float scale = i < real ? decoder.scale(m0 + i, block) : 1.0f;
          scales[block * a_rows(g) + m0 + i] = scale * (part == 0 ? 1.0f : 1 / kLift);
        }
      }
    }
  }

  template <int kMostK>
  static Segments<kMostK> segments(int64_t a_block, int64_t b_block, int64_t k0, int64_t k1) {
    Segments<kMostK> s;
    s.count = 0;
    for (int64_t k = k0; k < k1;) {
      const int64_t end = least(k1, least((k / a_block + 1) * a_block, (k / b_block + 1) * b_block));
      s.at[s.count++] = {(k - k0) / 2, pair_count(end - k), k / a_block, k / b_block - k0 / b_block};
      k = end;
    }
    return s;
  }

  template <WeightMode kMode>
  static void compute_unit(const SgGemm& g, int64_t unit, uint8_t* scratch) {
    if constexpr (has_pair_table(kBType)) {
      if (is_thin(g)) {
        return compute_thin<kMode>(g, unit, scratch);
      }
    }
    compute_block<kMode>(g, unit, scratch);
  }

  static int64_t panels16(const SgGemm& g) {
    return ceil_div(g.n, kPanelColumns);
  }

  // Panels of one M <= 16 unit: as many as are read at once, fewer where there would be few units.
  static int64_t thin_panels(const SgGemm& g) {
    constexpr int64_t kEnough = 8;
    int64_t most = kMaxStreams;
    while (most > 2 && g.batch * ceil_div(panels16(g), most) < kEnough) {
      most /= 2;
    }
    return most;
  }

  static int64_t thin_scratch(const SgGemm& g) {
    const int64_t space = PairWeights<kBType>::scratch_bytes(g, least(kThinK, g.k));
    return thin_panels(g) * (sg_round_up(space, 64) + a_rows(g) * kPanelColumns * 4);
  }

  template <WeightMode kMode>
  static void compute_thin(const SgGemm& g, int64_t unit, uint8_t* scratch) {
    const int64_t groups = ceil_div(panels16(g), thin_panels(g));
    const int64_t batch = unit / groups;
    const int64_t panel0 = unit % groups * thin_panels(g);
    const int count = static_cast<int>(least(panels16(g) - panel0, thin_panels(g)));
    const int rows = static_cast<int>(a_rows(g));

    const PairWeights<kBType> weights(g, batch);
    const int64_t chunk = least(kThinK, g.k);
    const int64_t space = sg_round_up(PairWeights<kBType>::scratch_bytes(g, chunk), 64);
    float* const sums = reinterpret_cast<float*>(scratch + thin_panels(g) * space);
    for (int64_t i = 0; i < count * rows * kPanelColumns; i += kLanes) {
      store(sums + i, zero());
    }
    for (int64_t k0 = 0; k0 < g.k; k0 += chunk) {
      const int64_t k1 = least(k0 + chunk, g.k);
      const bool last = k1 == g.k;
      const auto s = segments<kThinK>(a_block_k(g), weights.block_k(), k0, k1);
      ThinChunk all = {};
      for (int p = 0; p < count; ++p) {
        all.panels[p] = weights.panel(panel0 + p, k0, k1, scratch + p * space);
        const int64_t next = panel0 + p + (last ? thin_panels(g) : 0), next_k = last ? 0 : k1;
        all.next[p] = weights.ahead(next, next_k);
        weights.prefetch_scales(next, next_k, next_k + chunk);
      }
      PairDotJob<kBType> job = {};
      job.weights = &weights;
      job.segments = s.at;
      job.count = s.count;
      job.steps = pair_count(k1 - k0) / kStepPairs;
      for (int64_t part = 0; part < parts_of(g, batch, 0, k0, k1); ++part) {
        job.a = panel_of(g, {batch, part}, 0, k0, k1);  // one tile: [pair][rows] throughout
        job.row_scale = scales_of(g, {batch, part});
        run_streams<kMode>(all, count, rows, sums, job);
      }
    }
    write_panels(g, batch, panel0, count, sums);
  }

  // The panels of a unit in one chunk of K, and where their codes of the next chunk are.
  struct ThinChunk {
    PairPanel panels[kMaxStreams];
    const uint8_t* next[kMaxStreams];
  };

  // As many panels at a time as there are registers for.
  template <WeightMode kMode>
  static void run_streams(const ThinChunk& all, int count, int rows, float* sums, PairDotJob<kBType>& job) {
    for (int i = 0; i < kMaxStreams; ++i) {
      job.later[i] = all.next[i % count];
    }
    job.pass = 0;
    job.passes = kMaxStreams / dot_streams(rows);
    for (int first = 0; first < count; ++job.pass) {
      int size = dot_streams(rows);
      while (size > count - first) {
        size /= 2;
      }
      for (int p = 0; p < size; ++p) {
        job.panels[p] = all.panels[first + p];
      }
      job.sums = sums + first * rows * kPanelColumns;
      run_dot_pairs<kBType, kMode>(rows, size, job);
      first += size;
    }
  }

  // Pairs of panels of 16 columns become blocks of 32; the second of a last odd number is not looked at.
  static void write_panels(const SgGemm& g, int64_t batch, int64_t panel0, int count, const float* sums) {
    const int rows = static_cast<int>(a_rows(g)), real = static_cast<int>(g.m);
    alignas(64) float block[kPairDotRows * kGroup];
    for (int p = 0; p < count; p += 2) {
      for (int r = 0; r < real; ++r) {
        for (int half = 0; half < 2; ++half) {
          const int64_t from = (least(p + half, count - 1) * rows + r) * kPanelColumns;
          store(block + r * kGroup + half * kPanelColumns, load(sums + from));
        }
      }
      const int64_t n = (panel0 + p) * kPanelColumns;
      write_block(g, {batch, 0, n, real, static_cast<int>(least(g.n - n, kGroup))}, block, kGroup);
    }
  }

  static int64_t block_scratch(const SgGemm& g) {
    const int64_t chunk = least(kChunkK, g.k);
    const BlockUnits u = units(g);
    const int64_t rows = u.rows.size(0) * tiles(g).size(0);
    return PairBlocks<kBType>::scratch_bytes(g, chunk) + pair_count(chunk) * kGroup * 4 +
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
    alignas(64) float ones[kGroup];
    store(ones, set1(1.0f));
    store(ones + kLanes, set1(1.0f));

    const PairBlocks<kBType> weights(g, batch);
    const int64_t chunk = least(kChunkK, g.k);
    uint32_t* const b = reinterpret_cast<uint32_t*>(scratch + PairBlocks<kBType>::scratch_bytes(g, chunk));
    float* const sums = reinterpret_cast<float*>(b + pair_count(chunk) * kGroup);
    for (int64_t k0 = 0; k0 < g.k; k0 += chunk) {
      const int64_t k1 = least(k0 + chunk, g.k);
      const auto s = segments<kChunkK>(a_block_k(g), weights.block_k(), k0, k1);
      for (int64_t panel = panel0; panel < panel1; ++panel) {
        const float* const scales = weights.template make<kMode>(panel, k0, k1, s, scratch, b);
        const bool more = panel + 1 < panel1;
        for (int64_t tile = tile0; tile < tile1; ++tile) {
          // What is decoded next comes from memory while this panel is multiplied.
          weights.prefetch(more ? panel + 1 : panel0, more ? k0 : k1, chunk, tile - tile0, tile1 - tile0);
          const int64_t m = cut.begin(tile);
          const int64_t size = cut.size(tile);
          float* const c = sums + ((panel - panel0) * rows + m - row0) * kGroup;
          for (int64_t part = 0; part < parts_of(g, batch, tile, k0, k1); ++part) {
            const uint32_t* const a = panel_of(g, {batch, part}, m, k0, k1);
            const float* const row_scales = scales_of(g, {batch, part}) + m;
            for (int i = 0; i < s.count; ++i) {
              const Segment& at = s.at[i];
              const float* columns = kMode == kPlain ? ones : scales + at.b_row * kGroup;
              run_pair_tile(static_cast<int>(size),
                            {a + at.pair * size, b + at.pair * kGroup, c, row_scales + at.a_block * g.m,
                             columns, at.pairs, k0 == 0 && i == 0 && part == 0});
            }
          }
          if (k1 == g.k) {
            const int64_t n = panel * kGroup;
            write_block(g, {batch, m, n, static_cast<int>(size), static_cast<int>(least(g.n - n, kGroup))}, c,
                        kGroup);
          }
        }
      }
    }
  }
};

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_BF16_GEMM_H_
