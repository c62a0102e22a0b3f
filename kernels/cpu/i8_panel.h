// Weights for the int8-dot micro-kernel: panels of 16 columns in SG_PANEL_K4X16 order, either where the
// packer put them or made here from raw weights, with their scales and zero points.
//
// Raw panels cost about one cycle for 8 bytes and are made once a unit (that is, once for up to
// kChunkTiles row tiles): 16 rows x 32 bytes are transposed as 4-byte items in registers; 4-bit codes are
// regrouped from (k, k+1) to (k, k+4) pairs on the way.
#ifndef SCALEGEMM_KERNELS_CPU_I8_PANEL_H_
#define SCALEGEMM_KERNELS_CPU_I8_PANEL_H_

#include "cpu/i8_prepare.h"
#include "cpu/i8_tile.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// Bytes (n0 n1)(n2 n3)(n4 n5)(n6 n7), low nibble first, to (n0 n4)(n1 n5)(n2 n6)(n3 n7).
SG_INLINE __m256i i8_pair_fours(__m256i w) {
  const __m256i first = _mm256_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13, 0, 0, 1, 1, 4, 4,
                                         5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
  const __m256i second = _mm256_setr_epi8(2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15, 2, 2, 3, 3,
                                          6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15);
  const __m256i a = _mm256_shuffle_epi8(w, first);
  const __m256i b = _mm256_shuffle_epi8(w, second);
  const __m256i low = _mm256_or_si256(_mm256_and_si256(a, _mm256_set1_epi16(0x000f)),
                                      _mm256_and_si256(_mm256_srli_epi16(a, 4), _mm256_set1_epi16(0x0f00)));
  const __m256i high = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(b, 4), _mm256_set1_epi16(0x00f0)),
                                       _mm256_and_si256(b, _mm256_set1_epi16(static_cast<int16_t>(0xf000))));
  return _mm256_or_si256(low, high);
}

// 16 rows x 32 bytes at src (row distance `ld`) to 8 runs of [16 columns][4 bytes].
template <bool kNibbles>
SG_INLINE void i8_transpose(const uint8_t* src, int64_t ld, uint8_t* out) {
  for (int c = 0; c < kPanelColumns; c += 4) {
    __m256i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + (c + i) * ld));
      x[i] = kNibbles ? i8_pair_fours(x[i]) : x[i];
    }
    const __m256i p = _mm256_unpacklo_epi32(x[0], x[1]), q = _mm256_unpackhi_epi32(x[0], x[1]);
    const __m256i r = _mm256_unpacklo_epi32(x[2], x[3]), s = _mm256_unpackhi_epi32(x[2], x[3]);
    const __m256i y[4] = {_mm256_unpacklo_epi64(p, r), _mm256_unpackhi_epi64(p, r),
                          _mm256_unpacklo_epi64(q, s), _mm256_unpackhi_epi64(q, s)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      _mm_store_si128(reinterpret_cast<__m128i*>(out + i * 64 + c * 4), _mm256_castsi256_si128(y[i]));
      _mm_store_si128(reinterpret_cast<__m128i*>(out + (i + 4) * 64 + c * 4),
                      _mm256_extracti128_si256(y[i], 1));
    }
  }
}

// Bytes [first, units) along K of one panel; out takes 32 of them at a time.
template <int kB>
inline void i8_make_panel(const SgGemm& g, int64_t batch, int64_t panel, int64_t first, int64_t units,
                          uint8_t* out) {
  const int64_t row = panel * kPanelColumns;
  const int64_t rows = g.n - row < kPanelColumns ? g.n - row : kPanelColumns;
  const uint8_t* data = static_cast<const uint8_t*>(g.b.data) + batch * g.b.stride_batch + row * g.b.stride_r;
  I8Rows rows_of_chunk;
  for (int64_t u = first; u < units; u += kFetchBytes) {
    const int64_t n = units - u < kFetchBytes ? units - u : kFetchBytes;
    const bool in_place = rows == kPanelColumns && n % 32 == 0 && g.b.stride_k == 1;
    if (!in_place) {
      i8_fetch(g.b, batch, row, rows, u, n, rows_of_chunk);
    }
    for (int64_t i = 0; i < n; i += 32) {
      i8_transpose<is_4bit(kB)>(in_place ? data + u + i : rows_of_chunk.byte[0] + i,
                                in_place ? g.b.stride_r : kFetchBytes, out + (u - first + i) * kPanelColumns);
    }
  }
}

// Where the scales (or zero points) of one panel sit: element (block, column) at first[column] + block *
// step.
struct I8ScaleIndex {
  int64_t first[kPanelColumns];
  int64_t step;
  int64_t columns;  // inside N
  bool contiguous;  // first[c] = first[0] + c
};

inline I8ScaleIndex i8_scale_index(const SgGemm& g, const SgScale& scale, int64_t batch, int64_t panel) {
  I8ScaleIndex index;
  const int64_t row = panel * kPanelColumns;
  const int64_t blocks = scale.data ? ceil_div(g.k, scale.block_k) : 1;
  index.step = g.b.packed ? kPanelColumns : scale.stride_k;
  index.columns = g.n - row < kPanelColumns ? g.n - row : kPanelColumns;
  for (int64_t c = 0; c < index.columns; ++c) {
    index.first[c] = batch * scale.stride_batch;
    if (scale.data) {
      index.first[c] += g.b.packed ? row * blocks + c : (row + c) / scale.block_r * scale.stride_r;
    }
  }
  index.contiguous = true;
  for (int64_t c = 1; c < index.columns; ++c) {
    index.contiguous = index.contiguous && index.first[c] == index.first[0] + c;
  }
  return index;
}

// Scales of one block of one panel, 1 past N.
inline void i8_panel_scales(const SgScale& scale, const I8ScaleIndex& index, int64_t block, float* out) {
  if (index.columns == kPanelColumns && index.contiguous) {
    const int size = storage_bytes(scale.dtype);
    const uint8_t* p = static_cast<const uint8_t*>(scale.data) + (index.first[0] + block * index.step) * size;
    for (int v = 0; v < kPanelVecs; ++v) {
      store(out + v * kLanes, i8_scale_vector(p + v * kLanes * size, scale.dtype));
    }
    return;
  }
  int64_t at[kPanelColumns];
  for (int64_t c = 0; c < index.columns; ++c) {
    at[c] = index.first[c] + block * index.step;
  }
  i8_gather_scales(scale, at, index.columns, out);
}

// Expands a panel's scales to f32 [segment][16] in scratch where the kernel does not read them in place, and
// sets the factors that are constant along K.
template <int kB>
inline void i8_set_scales(const SgGemm& g, const I8Plan& plan, int64_t batch, int64_t panel,
                          uint8_t* scratch_scales, float* factors, I8Panel& out) {
  const SgScale& scale = g.b.scale;
  const bool blocked = i8_varying_block(g.b, g.k) != 0;
  const float unit = i8_unit(kB) * (g.b.global_scale ? *g.b.global_scale : 1.0f);
  const I8ScaleIndex index = i8_scale_index(g, scale.data ? scale : g.b.zero, batch, panel);
  alignas(64) float constant[kPanelColumns];
  for (float& x : constant) {
    x = 1.0f;
  }
  if (scale.data && !blocked) {
    i8_panel_scales(scale, index, 0, constant);
  }
  for (int64_t c = 0; c < kPanelColumns; ++c) {
    factors[c] = constant[c] * unit;
  }
  out.factors = factors;
  if (i8_direct_scales(g, plan)) {
    out.scales = static_cast<const uint8_t*>(scale.data) + index.first[0] * storage_bytes(scale.dtype);
    return;
  }
  out.scales = scratch_scales;
  for (int64_t s = 0; plan.mode != I8Mode::kWhole && s < plan.segments; ++s) {
    float* to = reinterpret_cast<float*>(scratch_scales) + s * kPanelColumns;
    if (scale.data && blocked) {
      i8_panel_scales(scale, index, s * plan.segment_k / scale.block_k, to);
    } else {
      for (int64_t c = 0; c < kPanelColumns; ++c) {
        to[c] = 1.0f;
      }
    }
  }
}

// The same for zero points, as int8.
inline void i8_set_zeros(const SgGemm& g, const I8Plan& plan, int64_t batch, int64_t panel,
                         uint8_t* scratch_zeros, I8Panel& out) {
  const SgScale& zero = g.b.zero;
  out.zeros = nullptr;
  if (!zero.data) {
    return;
  }
  const I8ScaleIndex index = i8_scale_index(g, zero, batch, panel);
  if (i8_direct_scales(g, plan)) {
    out.zeros = static_cast<const int8_t*>(zero.data) + index.first[0];
    return;
  }
  for (int64_t s = 0; s < plan.segments; ++s) {
    const int64_t block = s * plan.segment_k / zero.block_k;
    for (int64_t c = 0; c < kPanelColumns; ++c) {
      scratch_zeros[s * kPanelColumns + c] =
          c < index.columns ? static_cast<uint8_t>(i8_zero_point(zero, index.first[c] + block * index.step))
                            : 0;
    }
  }
  out.zeros = reinterpret_cast<const int8_t*>(scratch_zeros);
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_PANEL_H_
