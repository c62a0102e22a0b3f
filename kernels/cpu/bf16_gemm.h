// The bf16 dot family (VDPBF16PS): operands whose codes are bf16 numbers, two products an instruction.
//
//   prepare   A -> bf16 pairs (k, k+1) in row panels of the workspace, once a call; its scales -> f32
//   compute   a unit is a block of rows x a few panels of 32 columns
//               for each chunk of kChunk k, for each panel:
//                 decode the panel's chunk to bf16 pairs          kChunk/2 x 32 x 4 bytes = 16 KB, in L1
//                 for each row tile, for each segment of K (scales of A and B constant):
//                   dot_tile: sums of the segment from zero, then C += sum * scale_a * scale_b in f32
//
// Codes of e4m3, e5m2 (both flavours), e2m1, int8, int4, uint4, and their differences with zero points, are
// bf16 numbers (at most 8 significant bits), so products are exact and sums are f32 as in f32fma; scales
// multiply sums of a segment, never operands. The instruction takes subnormal operands and sums as zero: the
// products of those codes are at least 2^-34, so nothing is lost. bf16 operands may hold subnormals: with
// them the family serves Accuracy::kFast only (src/arch says so).
//
// Tile: 14 rows x 32 columns, 28 accumulators, 2 of B, 1 of A: 31 registers. A pair of k: 28 instructions, 14
// broadcasts, 2 loads = 28 cycles where one 512-bit VDPBF16PS issues a cycle (Zen 4: twice the flops of FMA),
// 62 where its rate is 0.45 (Emerald Rapids: slower than FMA, and dispatch takes f32fma there). A segment
// end costs 28 x (multiply, FMA, load, store): 6 % at 128 k, 25 % at 32 k.
//
// Bits: a segment is one chain over ascending k, segments are added in order: independent of M, N, threads,
// packing and layout. Limits: block_k of A and B even (a pair has one scale); the workspace is
// batch * M * (2*K + 4*blocks of A) bytes.
#ifndef SCALEGEMM_KERNELS_CPU_BF16_GEMM_H_
#define SCALEGEMM_KERNELS_CPU_BF16_GEMM_H_

#include "cpu/f32_rows.h"

#ifndef __AVX512BF16__
#error "the bf16 dot family needs -mavx512bf16"
#endif

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
    const __m512bh b0 = reinterpret_cast<__m512bh>(iload(b));
    const __m512bh b1 = reinterpret_cast<__m512bh>(iload(b + kLanes));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const __m512bh x = reinterpret_cast<__m512bh>(iset1(static_cast<int32_t>(a[i])));
      acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, b0);
      acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, b1);
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

// Two vectors of f32 that are bf16 numbers, as pairs.
SG_INLINE I to_pairs(F low, F high) {
  const I high_half = iset1(static_cast<int32_t>(0xffff0000));
  // (high & mask) | (low >> 16)
  return _mm512_ternarylogic_epi32(_mm512_castps_si512(high), high_half,
                                   _mm512_srli_epi32(_mm512_castps_si512(low), 16), 0xea);
}

// Codes of a segment [k0, k1), k0 even, at `codes`, to pairs at out; the missing half of a last odd k is 0.
// `row`: the row of zero points.
template <int kType, WeightMode kMode>
inline void decode_pairs(const PanelBlock& b, const uint8_t* codes, int64_t row, int64_t depth,
                         uint32_t* out) {
  const BlockScale<kType, kMode, kVecs> s(b, row, 0);
  for (int64_t k = 0; k < depth; k += 2, out += kGroup) {
    if constexpr (is_4bit(kType)) {
      const auto x = decode<kType, kVecs>(codes);
      for (int i = 0; i < kVecs; ++i) {
        istore(out + i * kLanes, to_pairs(s.shifted(x.v[i], i), s.shifted(x.v[kVecs + i], i)));
      }
      codes += group_bytes(kType);
    } else {
      const auto low = decode<kType, kVecs>(codes);
      if (k + 1 < depth) {
        const auto high = decode<kType, kVecs>(codes + group_bytes(kType));
        for (int i = 0; i < kVecs; ++i) {
          istore(out + i * kLanes, to_pairs(s.shifted(low.v[i], i), s.shifted(high.v[i], i)));
        }
      } else {
        for (int i = 0; i < kVecs; ++i) {
          istore(out + i * kLanes, to_pairs(s.shifted(low.v[i], i), zero()));
        }
      }
      codes += 2 * group_bytes(kType);
    }
  }
}

template <int kBType, int kChunkK = 256>
class Bf16Gemm {
 public:
  static uint64_t workspace_bytes(const SgCpuGemm* g) {
    return static_cast<uint64_t>(panel_words(*g) * g->batch + scale_words(*g) * g->batch) * 4;
  }

  static uint64_t scratch_bytes(const SgCpuGemm* g) {
    const int64_t rows = row_scratch_bytes(kChunkK) + 4;
    const int64_t block = block_scratch(*g);
    return static_cast<uint64_t>(sg_round_up(block > rows ? block : rows, 64));
  }

  static int64_t prepare_units(const SgCpuGemm* g) {
    return g->batch * tiles(*g).count * ceil_div(g->k, kChunkK);
  }

  static void prepare(const SgCpuGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    for (int64_t unit = begin; unit < end; ++unit) {
      prepare_unit(*g, unit, static_cast<float*>(scratch));
    }
  }

  static int64_t compute_units(const SgCpuGemm* g) {
    const BlockUnits u = units(*g);
    return g->batch * u.columns.count * u.rows.count;
  }

  static void compute(const SgCpuGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    for (int64_t unit = begin; unit < end; ++unit) {
      uint8_t* const memory = static_cast<uint8_t*>(scratch);
      switch (Weights<kBType>::mode(*g)) {
        case kPlain:
          compute_block<kPlain>(*g, unit, memory);
          break;
        case kScaled:
          compute_block<kScaled>(*g, unit, memory);
          break;
        case kZeroed:
          compute_block<kZeroed>(*g, unit, memory);
          break;
      }
    }
  }

 private:
  static_assert(kChunkK % 2 == 0, "a chunk must not split a pair");
  static constexpr int64_t kBlockRows = 504;
  static constexpr int64_t kUnitPanels = 4;

  // A part of a chunk whose scales are constant; `pair` counts from the start of the chunk.
  struct Segment {
    int64_t pair, pairs, a_block, b_row;
  };
  struct Segments {
    int count;
    Segment at[kChunkK / 2];
  };

  static EvenCut tiles(const SgCpuGemm& g) { return EvenCut::of_at_most(g.m, kPairTileRows); }
  static BlockUnits units(const SgCpuGemm& g) {
    return BlockUnits::of(g.batch, ceil_div(g.n, kGroup), tiles(g).count,
                          {kUnitPanels, kBlockRows / kPairTileRows});
  }
  static int64_t a_block_k(const SgCpuGemm& g) {
    const bool blocks = g.a.scale.data || g.a.zero.data;
    return blocks && g.a.scale.block_k >= 1 ? g.a.scale.block_k : g.k;
  }
  static int64_t panel_words(const SgCpuGemm& g) { return sg_round_up(g.m * ceil_div(g.k, 2), 16); }
  // From the sizes alone: whether there are scales at all is not known before a run.
  static int64_t scale_words(const SgCpuGemm& g) {
    const int64_t block = g.a.scale.block_k >= 1 ? g.a.scale.block_k : g.k;
    return sg_round_up(g.m * ceil_div(g.k, block), 16);
  }

  // Pairs of rows from m on in the chunk [k0, k1).
  static uint32_t* panel_of(const SgCpuGemm& g, int64_t batch, int64_t m, int64_t k0, int64_t k1) {
    uint32_t* const base = static_cast<uint32_t*>(g.workspace) + batch * panel_words(g);
    return base + g.m * (k0 / 2) + m * ceil_div(k1 - k0, 2);
  }
  // Scales of k block 0: [k block][m].
  static float* scales_of(const SgCpuGemm& g, int64_t batch) {
    return static_cast<float*>(g.workspace) + g.batch * panel_words(g) + batch * scale_words(g);
  }

  static void prepare_unit(const SgCpuGemm& g, int64_t unit, float* scratch) {
    const EvenCut cut = tiles(g);
    const int64_t chunks = ceil_div(g.k, kChunkK);
    const int64_t chunk = unit % chunks;
    const int64_t tile = unit / chunks % cut.count;
    const int64_t batch = unit / chunks / cut.count;
    const int64_t k0 = chunk * kChunkK, k1 = least(k0 + kChunkK, g.k);
    const int64_t m0 = cut.begin(tile), rows = cut.size(tile);
    const RowDecoder decoder(g, batch);
    uint32_t* const panel = panel_of(g, batch, m0, k0, k1);
    for (int64_t i = 0; i < rows; ++i) {
      decoder.decode_unscaled(m0 + i, k0, k1, scratch);
      scratch[k1 - k0] = 0.0f;
      const uint32_t* bits = reinterpret_cast<const uint32_t*>(scratch);
      for (int64_t p = 0; p < ceil_div(k1 - k0, 2); ++p) {
        panel[p * rows + i] = (bits[2 * p + 1] & 0xffff0000u) | bits[2 * p] >> 16;
      }
    }
    if (chunk == 0) {
      float* const scales = scales_of(g, batch);
      for (int64_t block = 0; block < ceil_div(g.k, a_block_k(g)); ++block) {
        for (int64_t i = 0; i < rows; ++i) {
          scales[block * g.m + m0 + i] = decoder.scale(m0 + i, block);
        }
      }
    }
  }

  static int64_t block_scratch(const SgCpuGemm& g) {
    const int64_t chunk = least(kChunkK, g.k);
    const BlockUnits u = units(g);
    const int64_t rows = u.rows.size(0) * tiles(g).size(0);
    return Weights<kBType>::scratch_bytes(g, chunk) + ceil_div(chunk, 2) * kGroup * 4 +
           u.columns.size(0) * rows * kGroup * 4;
  }

  static Segments segments(int64_t a_block, int64_t b_block, int64_t k0, int64_t k1) {
    Segments s = {};
    for (int64_t k = k0; k < k1;) {
      const int64_t end = least(k1, least((k / a_block + 1) * a_block, (k / b_block + 1) * b_block));
      s.at[s.count++] = {(k - k0) / 2, ceil_div(end - k, 2), k / a_block, k / b_block - k0 / b_block};
      k = end;
    }
    return s;
  }

  template <WeightMode kMode>
  static void decode_chunk(const PanelBlock& block, const Segments& s, int64_t depth, uint32_t* out) {
    constexpr int64_t kPairBytes = is_4bit(kBType) ? group_bytes(kBType) : 2 * group_bytes(kBType);
    for (int i = 0; i < s.count; ++i) {
      const Segment& at = s.at[i];
      const int64_t left = depth - 2 * at.pair;
      decode_pairs<kBType, kMode>(block, block.codes + at.pair * kPairBytes, at.b_row,
                                  least(2 * at.pairs, left), out + at.pair * kGroup);
    }
  }

  // Units run down the rows of one column block first, while its weights are in cache.
  template <WeightMode kMode>
  static void compute_block(const SgCpuGemm& g, int64_t unit, uint8_t* scratch) {
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

    const Weights<kBType> weights(g, batch);
    const int64_t chunk = least(kChunkK, g.k);
    const PanelScratch space = Weights<kBType>::carve(g, chunk, scratch);
    uint32_t* const b = reinterpret_cast<uint32_t*>(scratch + Weights<kBType>::scratch_bytes(g, chunk));
    float* const sums = reinterpret_cast<float*>(b + ceil_div(chunk, 2) * kGroup);
    const float* const row_scales = scales_of(g, batch);
    for (int64_t k0 = 0; k0 < g.k; k0 += chunk) {
      const int64_t k1 = least(k0 + chunk, g.k);
      const Segments s = segments(a_block_k(g), weights.block_k(), k0, k1);
      for (int64_t panel = panel0; panel < panel1; ++panel) {
        const PanelBlock block = weights.block(panel, k0, k1, space);
        decode_chunk<kMode>(block, s, k1 - k0, b);
        const bool more = panel + 1 < panel1;
        for (int64_t tile = tile0; tile < tile1; ++tile) {
          // What is decoded next comes from memory while this panel is multiplied.
          weights.prefetch(more ? panel + 1 : panel0, more ? k0 : k1, chunk, tile - tile0, tile1 - tile0);
          const int64_t m = cut.begin(tile);
          const int64_t size = cut.size(tile);
          float* const c = sums + ((panel - panel0) * rows + m - row0) * kGroup;
          const uint32_t* const a = panel_of(g, batch, m, k0, k1);
          for (int i = 0; i < s.count; ++i) {
            const Segment& at = s.at[i];
            const float* columns = kMode == kPlain ? ones : block.scales + at.b_row * kGroup;
            run_pair_tile(static_cast<int>(size),
                          {a + at.pair * size, b + at.pair * kGroup, c, row_scales + at.a_block * g.m + m,
                           columns, at.pairs, k0 == 0 && i == 0});
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
