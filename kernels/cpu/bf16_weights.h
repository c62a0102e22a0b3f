// B as the bf16 dot kernels read it: panels of 16 columns (SG_PANEL_K4X16), packed ones in place, raw ones
// brought into the same order a chunk of K at a time, with their scales and zero points. (bf16 itself as B:
// panels of 32 columns, SG_PANEL_K1X32, as the f32 kernels read them.)
//
// Packed scales are read in their own type where they lie; of raw weights a chunk's are gathered as f32, its
// zero points as int8, in rows of 16.
#ifndef SCALEGEMM_KERNELS_CPU_BF16_WEIGHTS_H_
#define SCALEGEMM_KERNELS_CPU_BF16_WEIGHTS_H_

#include "cpu/bf16_pairs.h"
#include "cpu/i8_panel.h"
#include "cpu/weights.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// A part of a chunk of K whose scales are constant; `pair` counts from the start of the chunk.
struct Segment {
  int64_t pair, pairs, a_block, b_row;
};

template <int kChunkK>
struct Segments {
  int count;
  Segment at[kChunkK / 2];
};

// One panel, k in [k0, k1) of one chunk; rows of scales and zero points as in PanelBlock.
struct PairPanel {
  const uint8_t* codes;
  const uint8_t* scales;
  const uint8_t* zeros;
};

template <int kType>
class PairWeights {
 public:
  PairWeights(const SgGemm& g, int64_t batch) : g_(g), batch_(batch), panels_(ceil_div(g.n, kPanelColumns)) {
    const SgScale& grid = g.b.scale.data ? g.b.scale : g.b.zero;
    block_k_ = grid.data && grid.block_k >= 1 ? grid.block_k : g.k;
    k_blocks_ = ceil_div(g.k, block_k_);
    one_block_ = k_blocks_ == 1;
    global_ = g.b.global_scale ? *g.b.global_scale : 1.0f;
  }

  const SgGemm& problem() const { return g_; }
  int64_t block_k() const { return block_k_; }

  // Bytes of scratch of one panel for chunks of `chunk` k.
  static int64_t scratch_bytes(const SgGemm& g, int64_t chunk) {
    return g.b.packed ? 0 : code_bytes(chunk) + row_count(g, chunk) * kPanelColumns * 5;
  }

  // Panels past N are the last one.
  PairPanel panel(int64_t index, int64_t k0, int64_t k1, uint8_t* scratch) const {
    index = least(index, panels_ - 1);
    const int64_t kb = one_block_ ? 0 : k0 / block_k_;
    if (g_.b.packed) {
      const int64_t row = index * k_blocks_ + kb;
      return {packed_codes(index, k0), section(g_.b.scale, row), section(g_.b.zero, row)};
    }
    i8_make_panel<kType>(g_, batch_, index, k0 / kPerByte, ceil_div(k1, kPerByte), scratch);
    const int64_t rows = (k1 - 1) / block_k_ - kb + 1;
    PairPanel out = {scratch, nullptr, nullptr};
    scratch += code_bytes(k1 - k0);
    if (g_.b.scale.data) {
      out.scales = scratch;
      const I8ScaleIndex at = i8_scale_index(g_, g_.b.scale, batch_, index);
      for (int64_t i = 0; i < rows; ++i, scratch += kPanelColumns * 4) {
        i8_panel_scales(g_.b.scale, at, kb + i, reinterpret_cast<float*>(scratch));
      }
    }
    if (g_.b.zero.data) {
      out.zeros = scratch;
      const I8ScaleIndex at = i8_scale_index(g_, g_.b.zero, batch_, index);
      for (int64_t i = 0; i < rows * kPanelColumns; ++i) {
        const int64_t column = i % kPanelColumns, block = kb + i / kPanelColumns;
        const bool real = column < at.columns;
        scratch[i] = real ? static_cast<uint8_t>(i8_zero_point(g_.b.zero, at.first[column] + block * at.step))
                          : uint8_t{0};
      }
    }
    return out;
  }

  // Where a packed panel's codes from k on are, for prefetches: the panel need not exist. Raw weights are not
  // read in this order; the address is then any.
  const uint8_t* ahead(int64_t index, int64_t k) const {
    return g_.b.packed ? packed_codes(index, k) : static_cast<const uint8_t*>(g_.b.data);
  }

  // Asks for the scales and zero points of a packed panel, k in [k0, k1).
  void prefetch_scales(int64_t index, int64_t k0, int64_t k1) const {
    if (!g_.b.packed || one_block_) {
      return;
    }
    const int64_t first = index * k_blocks_ + k0 / block_k_, last = index * k_blocks_ + (k1 - 1) / block_k_;
    const SgScale* const both[] = {&g_.b.scale, &g_.b.zero};
    for (const SgScale* s : both) {
      const uint8_t* const end = section(*s, last + 1);
      for (const uint8_t* p = section(*s, first); p < end; p += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
      }
    }
  }

  // Row `row` of the scales of kCount panels times the global one; one choice by type for all of them.
  template <int kCount>
  SG_INLINE void scales(const PairPanel* panels, int64_t row, F (&out)[kCount]) const {
    switch (!g_.b.scale.data ? 0 : g_.b.packed ? g_.b.scale.dtype : static_cast<int>(SG_F32)) {
      case 0:
        return scales_of<0>(panels, row, out);
      case SG_F32:
        return scales_of<SG_F32>(panels, row, out);
      case SG_E8M0:
        return scales_of<SG_E8M0>(panels, row, out);
      case SG_BF16:
        return scales_of<SG_BF16>(panels, row, out);
      case SG_F16:
        return scales_of<SG_F16>(panels, row, out);
      default:
        return scales_of<SG_E4M3>(panels, row, out);
    }
  }
  // Row `row` of a panel's zero points.
  static SG_INLINE F zero_point(const PairPanel& p, int64_t row) {
    return to_float(load_i8(p.zeros + row * kPanelColumns));
  }

 private:
  static constexpr int kBits = is_4bit(kType) ? 4 : 8;

  template <int kScale, int kCount>
  SG_INLINE void scales_of(const PairPanel* panels, int64_t row, F (&out)[kCount]) const {
    const F global = set1(global_);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kScale == 0) {
        out[i] = global;
      } else {
        out[i] = i8_scale_vector<kScale>(panels[i].scales + row * kPanelColumns * storage_bytes(kScale));
      }
    }
    if (kScale != 0 && g_.b.global_scale) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        out[i] = mul(out[i], global);
      }
    }
  }
  static constexpr int64_t kPerByte = 8 / kBits;

  static int64_t code_bytes(int64_t chunk) {
    return sg_round_up(ceil_div(chunk, kPerByte), 32) * kPanelColumns;
  }
  static int64_t row_count(const SgGemm& g, int64_t chunk) {
    const int64_t block = g.b.scale.block_k >= 1 ? g.b.scale.block_k : g.k;
    return sg_round_up(chunk / block + 2, 4);
  }
  const uint8_t* packed_codes(int64_t index, int64_t k0) const {
    return static_cast<const uint8_t*>(g_.b.data) + batch_ * g_.b.stride_batch +
           index * sg_panel_bytes(SG_PANEL_K4X16, kBits, g_.k) + k0 / kPerByte * kPanelColumns;
  }
  const uint8_t* section(const SgScale& s, int64_t row) const {
    const int size = storage_bytes(s.dtype);
    return s.data
               ? static_cast<const uint8_t*>(s.data) + (batch_ * s.stride_batch + row * kPanelColumns) * size
               : nullptr;
  }

  const SgGemm& g_;
  int64_t batch_, panels_, block_k_, k_blocks_;
  bool one_block_;
  float global_;
};

// What many rows multiply by: the pairs of 32 columns, [pair][32], and their scales, [row of scales][32] f32.
template <int kType>
class PairBlocks {
 public:
  PairBlocks(const SgGemm& g, int64_t batch) : weights_(g, batch), packed_(g.b.packed != 0) {}

  int64_t block_k() const { return weights_.block_k(); }

  static int64_t scratch_bytes(const SgGemm& g, int64_t chunk) {
    return scale_bytes(g, chunk) + sg_round_up(PairWeights<kType>::scratch_bytes(g, chunk), 64);
  }

  // Pairs of panel `index`, k in [k0, k1), to out; returns the scales.
  template <WeightMode kMode, class Cut>
  const float* make(int64_t index, int64_t k0, int64_t k1, const Cut& cut, uint8_t* scratch,
                    uint32_t* out) const {
    float* const scales = reinterpret_cast<float*>(scratch);
    uint8_t* const codes = scratch + scale_bytes(weights_.problem(), k1 - k0);
    for (int half = 0; half < 2; ++half, out += kPanelColumns) {
      const PairPanel panel = weights_.panel(2 * index + half, k0, k1, codes);
      for (int i = 0; i < cut.count; ++i) {
        const Segment& at = cut.at[i];
        if (kMode != kPlain) {
          F row[1];
          weights_.scales(&panel, at.b_row, row);
          store(scales + at.b_row * kGroup + half * kPanelColumns, row[0]);
        }
        make_segment<kMode>(panel, at, out);
      }
    }
    return scales;
  }

  // Asks for part `part` of `parts` of a packed block's codes; nothing is read.
  void prefetch(int64_t index, int64_t k0, int64_t depth, int64_t part, int64_t parts) const {
    const int64_t lines = depth / pair_step_k(kType);
    for (int half = 0; packed_ && half < 2; ++half) {
      const uint8_t* const first = weights_.ahead(2 * index + half, k0);
      for (int64_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(first + i * 64), _MM_HINT_T1);
      }
    }
  }

 private:
  static int64_t scale_bytes(const SgGemm& g, int64_t chunk) {
    const int64_t block = g.b.scale.block_k >= 1 ? g.b.scale.block_k : g.k;
    return (chunk / block + 2) * kGroup * 4;
  }

  template <WeightMode kMode>
  void make_segment(const PairPanel& panel, const Segment& at, uint32_t* out) const {
    const PairLookup<kType> table;
    constexpr int kPairs = step_pairs(kType);
    const F shift = kMode == kZeroed ? PairWeights<kType>::zero_point(panel, at.b_row) : zero();
    for (int64_t pair = at.pair; pair < at.pair + at.pairs; pair += kPairs) {
      I pairs[kPairs];
      code_pairs<kType>(table, panel.codes + pair / kPairs * 64, pairs);
#pragma GCC unroll 4
      for (int i = 0; i < kPairs; ++i) {
        istore(out + (pair + i) * kGroup, kMode == kZeroed ? shift_pairs(pairs[i], shift) : pairs[i]);
      }
    }
  }

  PairWeights<kType> weights_;
  bool packed_;
};

// bf16 weights: rows of k and k + 1 woven together.
template <>
class PairBlocks<SG_BF16> {
 public:
  PairBlocks(const SgGemm& g, int64_t batch) : weights_(g, batch), g_(g) {}

  int64_t block_k() const { return weights_.block_k(); }
  static int64_t scratch_bytes(const SgGemm& g, int64_t chunk) {
    return Weights<SG_BF16>::scratch_bytes(g, chunk);
  }

  template <WeightMode kMode, class Cut>
  const float* make(int64_t index, int64_t k0, int64_t k1, const Cut&, uint8_t* scratch,
                    uint32_t* out) const {
    const PanelBlock block = weights_.block(index, k0, k1, Weights<SG_BF16>::carve(g_, k1 - k0, scratch));
    for (int64_t k = k0; k < k1; k += 2, out += kGroup) {
      const uint8_t* const codes = block.codes + (k - k0) * group_bytes(SG_BF16);
      const auto low = decode<SG_BF16, kVecs>(codes);
      Decoded<SG_BF16, kVecs> high = {{zero(), zero()}};  // past a last odd k
      if (k + 1 < k1) {
        high = decode<SG_BF16, kVecs>(codes + group_bytes(SG_BF16));
      }
      istore(out, to_pairs(low.v[0], high.v[0]));
      istore(out + kLanes, to_pairs(low.v[1], high.v[1]));
    }
    return block.scales;
  }

  void prefetch(int64_t index, int64_t k0, int64_t depth, int64_t part, int64_t parts) const {
    weights_.prefetch(index, k0, depth, part, parts);
  }

 private:
  Weights<SG_BF16> weights_;
  const SgGemm& g_;
};

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_BF16_WEIGHTS_H_
