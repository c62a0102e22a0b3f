// B as the f32 kernels read it: panels of 32 columns, k outermost, with the scales of the same columns as
// rows of 32 f32. Packed weights (SG_PANEL_K1X32) are read in place; of raw weights one block of 32 columns x
// a chunk of k is brought into the same order in scratch, so that everything after works on one order:
//
//   codes    [k][32] storage elements (4-bit types: [k/2][32] bytes)
//   scales   [k block][32] f32 = scale * global
//   zeros    [k block][32] f32
//
// Raw codes are moved as bytes, before they are decoded: K-contiguous ones through 16-byte transposes
// (log2(n) rounds of unpack; 1-byte codes cost one xmm shuffle per 4 codes), N-contiguous ones row by row,
// other strides one by one. No byte outside the operand is read; columns past N are zero codes.
#ifndef SCALEGEMM_KERNELS_CPU_WEIGHTS_H_
#define SCALEGEMM_KERNELS_CPU_WEIGHTS_H_

#include "common/panels.h"
#include "cpu/epilogue.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

SG_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

template <int kSize>
SG_INLINE __m128i unpack_low(__m128i a, __m128i b) {
  return kSize == 1   ? _mm_unpacklo_epi8(a, b)
         : kSize == 2 ? _mm_unpacklo_epi16(a, b)
                      : _mm_unpacklo_epi32(a, b);
}
template <int kSize>
SG_INLINE __m128i unpack_high(__m128i a, __m128i b) {
  return kSize == 1   ? _mm_unpackhi_epi8(a, b)
         : kSize == 2 ? _mm_unpackhi_epi16(a, b)
                      : _mm_unpackhi_epi32(a, b);
}

// A square of T x T elements of kSize bytes, T = 16/kSize: out row i is column i of the rows at `in`.
template <int kSize>
SG_INLINE void transpose_square(const uint8_t* in, int64_t in_stride, uint8_t* out, int64_t out_stride) {
  constexpr int kT = 16 / kSize;
  __m128i x[kT], y[kT];
#pragma GCC unroll 16
  for (int i = 0; i < kT; ++i) {
    x[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_stride));
  }
#pragma GCC unroll 4
  for (int step = 1; step < kT; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kT / 2; ++i) {
      y[2 * i] = unpack_low<kSize>(x[i], x[i + kT / 2]);
      y[2 * i + 1] = unpack_high<kSize>(x[i], x[i + kT / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kT; ++i) {
      x[i] = y[i];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kT; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * out_stride), x[i]);
  }
}

template <int kSize>
inline void copy_element(const uint8_t* from, uint8_t* to) {
  __builtin_memcpy(to, from, kSize);
}

// A block of raw storage elements: columns n .. n+columns (<= 32), `count` elements along k, at `data` =
// the first of them; strides in bytes.
struct RawBlock {
  const uint8_t* data;
  int64_t column_stride, k_stride;
  int columns;
  int64_t count;
};

// K-contiguous elements, a cache line of each column at a time: the lines are copied side by side first,
// because columns are often a multiple of 4 KB apart and would evict one another before the four squares of a
// line are through.
template <int kSize>
inline void gather_k_contiguous(const RawBlock& b, uint8_t* out) {
  constexpr int kT = 16 / kSize;
  constexpr int64_t kRow = kGroup * kSize;
  constexpr int64_t kLine = 64 / kSize;
  alignas(64) uint8_t lines[kT][64];
  alignas(16) uint8_t turned[kT * 16];
  for (int c = 0; c < kGroup; c += kT) {
    const int columns = static_cast<int>(least(b.columns - c, kT));
    for (int64_t k = 0; k < b.count; k += kLine) {
      const int64_t depth = least(b.count - k, kLine);
      if (columns < kT || depth < kLine) {
        __builtin_memset(lines, 0, sizeof(lines));
      }
      for (int i = 0; i < columns; ++i) {
        const uint8_t* from = b.data + (c + i) * b.column_stride + k * kSize;
        _mm_prefetch(reinterpret_cast<const char*>(from + b.count * kSize), _MM_HINT_T1);  // the next chunk
        if (depth == kLine) {
          __builtin_memcpy(lines[i], from, 64);
        } else {
          __builtin_memcpy(lines[i], from, static_cast<size_t>(depth * kSize));
        }
      }
      for (int64_t square = 0; square < depth; square += kT) {
        const uint8_t* from = lines[0] + square * kSize;
        uint8_t* to = out + (k + square) * kRow + c * kSize;
        if (square + kT <= depth) {
          transpose_square<kSize>(from, 64, to, kRow);
          continue;
        }
        transpose_square<kSize>(from, 64, turned, 16);
        for (int64_t i = 0; i < depth - square; ++i) {
          __builtin_memcpy(to + i * kRow, turned + 16 * i, 16);
        }
      }
    }
  }
}

template <int kSize>
inline void gather(const RawBlock& b, uint8_t* out) {
  constexpr int64_t kRow = kGroup * kSize;
  if (b.k_stride == kSize) {
    gather_k_contiguous<kSize>(b, out);
    return;
  }
  for (int64_t k = 0; k < b.count; ++k) {
    const uint8_t* from = b.data + k * b.k_stride;
    uint8_t* to = out + k * kRow;
    if (b.column_stride == kSize && b.columns == kGroup) {
      __builtin_memcpy(to, from, kRow);
      continue;
    }
    for (int c = 0; c < b.columns; ++c) {
      copy_element<kSize>(from + c * b.column_stride, to + c * kSize);
    }
    for (int c = b.columns; c < kGroup; ++c) {
      __builtin_memset(to + c * kSize, 0, kSize);
    }
  }
}

inline void gather_any(int size, const RawBlock& b, uint8_t* out) {
  if (size == 1) {
    gather<1>(b, out);
  } else if (size == 2) {
    gather<2>(b, out);
  } else {
    gather<4>(b, out);
  }
}

// How a decoded code becomes a value: v, v*s, or (v - z)*s.
enum WeightMode { kPlain = 0, kScaled = 1, kZeroed = 2 };

// One panel, k in [k0, k1) of one chunk. Row j of scales and zeros serves k block k0/block_k + j; null where
// the mode has none.
struct PanelBlock {
  const uint8_t* codes;
  const float* scales;
  const float* zeros;
};

// Scratch of one PanelBlock; `staging` holds scales in panel order before they are decoded.
struct PanelScratch {
  uint8_t* codes;
  float* scales;
  float* zeros;
  uint8_t* staging;
};

template <int kType>
class Weights {
 public:
  Weights(const SgGemm& g, int64_t batch) : b_(g.b), n_(g.n), k_(g.k), batch_(batch) {
    const int64_t given = b_.scale.block_k;
    block_k_ = given >= 1 && has_blocks(g) ? given : g.k;
    block_r_ = b_.scale.block_r >= 1 ? b_.scale.block_r : g.n;
    k_blocks_ = ceil_div(k_, block_k_);
    global_ = b_.global_scale ? *b_.global_scale : 1.0f;
    mode_ = mode(g);
  }

  static WeightMode mode(const SgGemm& g) {
    if (g.b.zero.data) {
      return kZeroed;
    }
    return g.b.scale.data || g.b.global_scale ? kScaled : kPlain;
  }
  WeightMode mode() const { return mode_; }
  int64_t block_k() const { return block_k_; }

  // Bytes of scratch for a chunk of `chunk` k: codes (raw weights only), scales, zeros, each a multiple
  // of 64.
  static int64_t scratch_bytes(const SgGemm& g, int64_t chunk) {
    return code_bytes(g, chunk) + 3 * row_bytes(g, chunk);
  }
  static PanelScratch carve(const SgGemm& g, int64_t chunk, uint8_t* memory) {
    uint8_t* const rows = memory + code_bytes(g, chunk);
    const int64_t size = row_bytes(g, chunk);
    return {memory, reinterpret_cast<float*>(rows), reinterpret_cast<float*>(rows + size), rows + 2 * size};
  }

  // k0 is even for 4-bit types.
  PanelBlock block(int64_t panel, int64_t k0, int64_t k1, const PanelScratch& scratch) const {
    PanelBlock out = {scratch.codes, nullptr, nullptr};
    if (b_.packed) {
      out.codes = packed_codes(panel, k0);
    } else {
      gather_codes(codes_of_batch(), panel, k0, k1, scratch.codes);
    }
    if (mode_ != kPlain) {
      fill_rows(b_.scale, panel, k0, k1, scratch.staging, scratch.scales, global_);
      out.scales = scratch.scales;
    }
    if (mode_ == kZeroed) {
      fill_rows(b_.zero, panel, k0, k1, scratch.staging, scratch.zeros, 1.0f);
      out.zeros = scratch.zeros;
    }
    return out;
  }

  // Where the codes of a packed panel from k on are, for prefetches: the panel need not exist. Raw weights
  // are not read in this order; the address is then any.
  const uint8_t* ahead(int64_t panel, int64_t k) const {
    return b_.packed ? packed_codes(panel, k) : codes_of_batch();
  }

  // Asks for part `part` of `parts` of a packed block's codes; nothing is read.
  void prefetch(int64_t panel, int64_t k0, int64_t depth, int64_t part, int64_t parts) const {
    if (!b_.packed) {
      return;
    }
    const int64_t bytes = depth * kGroup * kBits / 8;
    const int64_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
    const uint8_t* first = packed_codes(panel, k0);
    for (int64_t i = begin / 64 * 64; i < end; i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(first + i), _MM_HINT_T1);
    }
  }

 private:
  static constexpr int kBits = is_4bit(kType) ? 4 : 8 * storage_bytes(kType);

  const uint8_t* codes_of_batch() const {
    return static_cast<const uint8_t*>(b_.data) + batch_ * b_.stride_batch * storage_bytes(kType);
  }
  const uint8_t* packed_codes(int64_t panel, int64_t k0) const {
    return codes_of_batch() + panel * sg_panel_bytes(SG_PANEL_K1X32, kBits, k_) + k0 * kGroup * kBits / 8;
  }

  static bool has_blocks(const SgGemm& g) { return g.b.scale.data || g.b.zero.data; }

  static int64_t code_bytes(const SgGemm& g, int64_t chunk) {
    return g.b.packed ? 0 : sg_round_up(chunk, 16) * group_bytes(kType);
  }
  // From the sizes alone: whether there are scales at all is not known before a run.
  static int64_t row_bytes(const SgGemm& g, int64_t chunk) {
    const int64_t block = g.b.scale.block_k >= 1 ? g.b.scale.block_k : g.k;
    return (chunk / block + 2) * kGroup * 4;
  }

  void gather_codes(const uint8_t* data, int64_t panel, int64_t k0, int64_t k1, uint8_t* out) const {
    constexpr int kSize = storage_bytes(kType);
    constexpr int kPerElement = is_4bit(kType) ? 2 : 1;
    const int64_t n0 = panel * kGroup;
    const int64_t e0 = k0 / kPerElement;
    const RawBlock raw = {data + (n0 * b_.stride_r + e0 * b_.stride_k) * kSize, b_.stride_r * kSize,
                          b_.stride_k * kSize, static_cast<int>(least(n_ - n0, kGroup)),
                          ceil_div(k1, kPerElement) - e0};
    gather<kSize>(raw, out);
  }

  // Rows of 32 f32, times factor, from a scale or zero matrix for the k blocks that [k0, k1) touches. Without
  // a matrix the rows hold factor.
  void fill_rows(const SgScale& s, int64_t panel, int64_t k0, int64_t k1, uint8_t* staging, float* out,
                 float factor) const {
    const int64_t kb = k0 / block_k_;
    const int64_t rows = (k1 - 1) / block_k_ - kb + 1;
    if (!s.data) {
      for (int64_t i = 0; i < rows * kGroup; i += kLanes) {
        store(out + i, set1(factor));
      }
      return;
    }
    const int size = storage_bytes(s.dtype);
    const uint8_t* codes = static_cast<const uint8_t*>(s.data) + batch_ * s.stride_batch * size;
    if (b_.packed) {
      codes += (panel * k_blocks_ + kb) * kGroup * size;
    } else {
      gather_scales(s, codes, panel * kGroup, kb, rows, staging);
      codes = staging;
    }
    const DecodeRun decode_codes = find_decode_run(s.dtype);
    if (!is_4bit(s.dtype)) {
      decode_codes(codes, rows, factor, out);
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {  // 4-bit zero points: a code a byte
      alignas(64) float values[2 * kGroup];
      decode_codes(codes + i * kGroup, 1, factor, values);
      __builtin_memcpy(out + i * kGroup, values, sizeof(float) * kGroup);
    }
  }

  // Scales of columns from n0 on, k blocks [kb, kb + rows), to [row][32] in their own type.
  void gather_scales(const SgScale& s, const uint8_t* codes, int64_t n0, int64_t kb, int64_t rows,
                     uint8_t* out) const {
    const int size = storage_bytes(s.dtype);
    const int columns = static_cast<int>(least(n_ - n0, kGroup));
    const uint8_t* first = codes + (n0 / block_r_ * s.stride_r + kb * s.stride_k) * size;
    const bool shared = n0 / block_r_ == (n0 + columns - 1) / block_r_;
    RawBlock block = {first, shared ? 0 : s.stride_r * size, s.stride_k * size, columns, rows};
    if (block_r_ == 1 || shared) {
      gather_any(size, block, out);
      return;
    }
    for (int c = 0; c < columns; ++c) {  // a block of rows ends inside the panel
      for (int64_t i = 0; i < rows; ++i) {
        const uint8_t* from = codes + ((n0 + c) / block_r_ * s.stride_r + (kb + i) * s.stride_k) * size;
        __builtin_memcpy(out + (i * kGroup + c) * size, from, static_cast<size_t>(size));
      }
    }
  }

  const SgOperand& b_;
  int64_t n_, k_, batch_;
  int64_t block_k_, block_r_, k_blocks_;
  float global_;
  WeightMode mode_;
};

// The vectors of scale and zero of one k block, and what they make of a decoded code.
template <int kType, WeightMode kMode, int kCount>
struct BlockScale {
  F scale[kMode == kPlain ? 1 : kCount], shift[kMode == kZeroed ? kCount : 1];

  // Row `row` of the block, from column `column`.
  SG_INLINE BlockScale(const PanelBlock& b, int64_t row, int column) {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kMode != kPlain) {
        scale[i] = load(b.scales + row * kGroup + column + i * kLanes);
      }
      if constexpr (kMode == kZeroed) {
        shift[i] = load(b.zeros + row * kGroup + column + i * kLanes);
      }
    }
  }
  // The decoded code without its scale.
  SG_INLINE F shifted(F v, int i) const {
    if constexpr (kMode == kZeroed) {
      return sub(v, shift[i]);
    } else {
      return v;
    }
  }
  SG_INLINE F apply(F v, int i) const {
    if constexpr (kMode == kPlain) {
      return v;
    } else {
      return mul(shifted(v, i), scale[i]);
    }
  }
};

// Decodes one block: out[(k - k0)*32 + column], f32.
template <int kType, WeightMode kMode>
inline void decode_block(const PanelBlock& b, int64_t k0, int64_t k1, int64_t block_k, float* out) {
  constexpr int kStep = is_4bit(kType) ? 2 : 1;
  const uint8_t* codes = b.codes;
  int64_t row = 0;
  for (int64_t k = k0; k < k1; ++row) {
    const int64_t end = least(k1, (k / block_k + 1) * block_k);
    const BlockScale<kType, kMode, kVecs> s(b, row, 0);
    if (kStep == 2 && k % 2 == 1) {  // the block begins between the two codes of a byte
      const auto x = decode<kType, kVecs>(codes);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        store(out + i * kLanes, s.apply(x.v[(kStep - 1) * kVecs + i], i));
      }
      ++k, out += kGroup, codes += kGroup;
    }
    for (; k + kStep <= end; k += kStep, out += kStep * kGroup, codes += group_bytes(kType)) {
      const auto x = decode<kType, kVecs>(codes);
#pragma GCC unroll 8
      for (int i = 0; i < kStep * kVecs; ++i) {
        store(out + i * kLanes, s.apply(x.v[i], i % kVecs));
      }
    }
    if (kStep == 2 && k < end) {  // or ends there
      const auto x = decode<kType, kVecs>(codes);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        store(out + i * kLanes, s.apply(x.v[i], i));
      }
      ++k, out += kGroup;
    }
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_WEIGHTS_H_
