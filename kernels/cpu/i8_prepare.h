// Prepare of the int8-dot kernels: activations to int8 in tile order with their sums and scales, and raw
// weights to panels.
//
// One prepare unit is one row tile of one batch index. K goes through chunks of kFetchBytes storage bytes a
// row, small enough for L1: fetch (any strides) -> widen to int8 -> zero points off -> sums -> tile order.
// No byte outside the operand is read.
#ifndef SCALEGEMM_KERNELS_CPU_I8_PREPARE_H_
#define SCALEGEMM_KERNELS_CPU_I8_PREPARE_H_

#include "cpu/i8_plan.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int64_t kFetchBytes = 256;

// Zero-filled rows of storage elements (bytes).
struct I8Rows {
  alignas(64) uint8_t byte[kPanelColumns][kFetchBytes];
};

// Bytes [unit, unit + units) of rows [row, row + rows) of an operand with 8- or 4-bit codes.
inline void i8_fetch(const SgOperand& x, int64_t batch, int64_t row, int64_t rows, int64_t unit,
                     int64_t units, I8Rows& out) {
  const uint8_t* from =
      static_cast<const uint8_t*>(x.data) + batch * x.stride_batch + row * x.stride_r + unit * x.stride_k;
  if (rows < kPanelColumns || units < kFetchBytes) {
    __builtin_memset(&out, 0, sizeof out);
  }
  if (x.stride_k == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      __builtin_memcpy(out.byte[r], from + r * x.stride_r, static_cast<size_t>(units));
    }
    return;
  }
  for (int64_t u = 0; u < units; ++u) {
    for (int64_t r = 0; r < rows; ++r) {
      out.byte[r][u] = from[u * x.stride_k + r * x.stride_r];
    }
  }
}

inline int64_t i8_units(const SgOperand& x, int64_t k) {
  return is_4bit(x.dtype) ? k / 2 : k;
}

// A zero point as an integer; 4-bit ones are the low nibble of a byte.
inline int i8_zero_point(const SgScale& zero, int64_t index) {
  const int code = static_cast<const uint8_t*>(zero.data)[index];
  if (zero.dtype == SG_UINT4) {
    return code & 15;
  }
  return zero.dtype == SG_INT4 ? ((code & 15) ^ 8) - 8 : static_cast<int8_t>(code);
}

// 16 elements of a scale matrix as f32: element i at index base + i*stride, for i < count; 1 past them.
inline void i8_gather_scales(const SgScale& scale, const int64_t* index, int64_t count, float* out) {
  const int size = storage_bytes(scale.dtype);
  alignas(64) uint8_t codes[kPanelColumns * 4] = {};
  const uint8_t* p = static_cast<const uint8_t*>(scale.data);
  for (int64_t i = 0; i < count; ++i) {
    if (size == 4) {
      __builtin_memcpy(codes + i * 4, p + index[i] * 4, 4);
    } else if (size == 2) {
      __builtin_memcpy(codes + i * 2, p + index[i] * 2, 2);
    } else {
      codes[i] = p[index[i]];
    }
  }
  for (int v = 0; v < kPanelVecs; ++v) {
    store(out + v * kLanes, i8_scale_vector(codes + v * kLanes * size, scale.dtype));
  }
  for (int64_t i = count; i < kPanelColumns; ++i) {
    out[i] = 1.0f;
  }
}

// One chunk of one tile on its way: kFetchBytes storage bytes, at most 2 * kFetchBytes codes a row.
struct I8Chunk {
  I8Rows raw;
  alignas(64) uint8_t row[kMaxRows][2 * kFetchBytes];
};

// Takes the zero points off k in [k0, k0 + count) of row r (4-bit codes and zero points: the result fits).
inline void i8_subtract_zeros(const SgGemm& g, int64_t batch, int64_t r, int64_t k0, int64_t count,
                              uint8_t* codes) {
  const SgScale& zero = g.a.zero;
  const int64_t base = batch * zero.stride_batch + r / zero.block_r * zero.stride_r;
  for (int64_t k = k0; k < k0 + count;) {
    const int64_t block = k / zero.block_k;
    const int64_t end = (block + 1) * zero.block_k < k0 + count ? (block + 1) * zero.block_k : k0 + count;
    const int z = i8_zero_point(zero, base + block * zero.stride_k);
    for (; k < end; ++k) {
      codes[k - k0] = static_cast<uint8_t>(codes[k - k0] - z);
    }
  }
}

// Adds the sums of k in [k0, k0 + count) to the segments they lie in: sums[segment * stride].
inline void i8_add_sums(const uint8_t* codes, int64_t k0, int64_t count, int64_t segment_k, int64_t stride,
                        int32_t* sums) {
  for (int64_t k = k0; k < k0 + count;) {
    const int64_t segment = k / segment_k;
    const int64_t end = (segment + 1) * segment_k < k0 + count ? (segment + 1) * segment_k : k0 + count;
    sums[segment * stride] += i8_sum(codes + (k - k0), end - k);
    k = end;
  }
}

// Rows of int8 to [group][row][4 bytes]; `fours` runs of 4 k.
template <int kB>
inline void i8_interleave(const I8Chunk& chunk, int64_t rows, int64_t fours, uint8_t* out) {
  for (int64_t q = 0; q < fours; ++q) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* p = chunk.row[r] + q * 4;
      if constexpr (i8_words(kB)) {
        for (int half = 0; half < 2; ++half) {
          const int16_t pair[2] = {static_cast<int8_t>(p[half]), static_cast<int8_t>(p[half + 2])};
          __builtin_memcpy(out + ((2 * q + half) * rows + r) * 4, pair, 4);
        }
      } else {
        __builtin_memcpy(out + (q * rows + r) * 4, p, 4);
      }
    }
  }
}

template <int kB>
inline void i8_prepare_codes(const SgGemm& g, const I8Plan& plan, int64_t batch, int64_t tile,
                             const I8Prepared& out) {
  const int64_t row0 = plan.tile_row(tile);
  const int64_t rows = plan.tile_rows(tile);
  const int64_t real = row0 + rows <= g.m ? rows : g.m - row0;
  const int64_t units = i8_units(g.a, g.k);
  const int64_t codes_of = is_4bit(g.a.dtype) ? 2 : 1;
  I8Chunk chunk;
  __builtin_memset(&chunk, 0, sizeof chunk);
  for (int64_t u = 0; u < units; u += kFetchBytes) {
    const int64_t n = units - u < kFetchBytes ? units - u : kFetchBytes;
    i8_fetch(g.a, batch, row0, real, u, n, chunk.raw);
    const int64_t k0 = u * codes_of, count = n * codes_of;
    const int64_t last_k = plan.steps * i8_step_k(kB);  // K padded to whole steps
    for (int64_t r = 0; r < real; ++r) {
      if (codes_of == 2) {
        i8_widen_nibbles(chunk.raw.byte[r], kFetchBytes, g.a.dtype, chunk.row[r]);
      } else {
        __builtin_memcpy(chunk.row[r], chunk.raw.byte[r], kFetchBytes);
      }
      if (g.a.zero.data) {
        i8_subtract_zeros(g, batch, row0 + r, k0, count, chunk.row[r]);
      }
      i8_add_sums(chunk.row[r], k0, count, plan.segment_k, rows, out.sums + r);
    }
    const int64_t end = n < kFetchBytes || u + n == units ? last_k : k0 + count;
    i8_interleave<kB>(chunk, rows, (end - k0) / 4, out.codes + k0 / 4 * rows * 4 * (i8_words(kB) ? 2 : 1));
  }
}

// Sums become corrections: see I8Prepared.
template <int kB>
inline void i8_finish_sums(const SgGemm& g, int64_t count, int32_t* sums) {
  const uint32_t by = g.b.zero.data ? 1u : static_cast<uint32_t>(i8_bias(kB));
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = static_cast<int32_t>(0u - by * static_cast<uint32_t>(sums[i]));
  }
}

template <int kB>
inline void i8_prepare_scales(const SgGemm& g, const I8Plan& plan, int64_t batch, int64_t tile,
                              const I8Prepared& out) {
  const SgScale& scale = g.a.scale;
  const int64_t row0 = plan.tile_row(tile);
  const int64_t rows = plan.tile_rows(tile);
  const float unit = i8_unit(g.a.dtype) * (g.a.global_scale ? *g.a.global_scale : 1.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const bool real = row0 + r < g.m;
    out.factors[r] = real ? unit : 0.0f;
    if (!real || !scale.data) {
      for (int64_t s = 0; plan.mode == I8Mode::kBoth && s < plan.segments; ++s) {
        out.scales[s * rows + r] = 1.0f;
      }
      continue;
    }
    const int64_t base = batch * scale.stride_batch + (row0 + r) / scale.block_r * scale.stride_r;
    alignas(64) float value[kPanelColumns];
    if (plan.mode != I8Mode::kBoth) {
      i8_gather_scales(scale, &base, 1, value);
      out.factors[r] = value[0] * unit;
      continue;
    }
    for (int64_t s = 0; s < plan.segments; s += kPanelColumns) {
      const int64_t count = plan.segments - s < kPanelColumns ? plan.segments - s : kPanelColumns;
      int64_t index[kPanelColumns];
      for (int64_t i = 0; i < count; ++i) {
        index[i] = base + (s + i) * plan.segment_k / scale.block_k * scale.stride_k;
      }
      i8_gather_scales(scale, index, count, value);
      for (int64_t i = 0; i < count; ++i) {
        out.scales[(s + i) * rows + r] = value[i];
      }
    }
  }
}

// The parts of prepared A that belong to one tile.
inline I8Prepared i8_tile_of(const I8Prepared& all, const I8Plan& plan, int64_t tile) {
  const int64_t row = plan.tile_row(tile);
  return {all.codes + row * plan.row_bytes, all.sums + row * plan.segments,
          plan.mode == I8Mode::kBoth ? all.scales + row * plan.segments : all.scales, all.factors + row};
}

template <int kB>
inline void i8_prepare_tile(const SgGemm& g, const I8Plan& plan, int64_t batch, int64_t tile) {
  const I8Prepared out = i8_tile_of(i8_prepared(g, plan, batch), plan, tile);
  const int64_t sums = plan.segments * plan.tile_rows(tile);
  __builtin_memset(out.sums, 0, static_cast<size_t>(sums) * 4);
  i8_prepare_codes<kB>(g, plan, batch, tile, out);
  i8_finish_sums<kB>(g, sums, out.sums);
  i8_prepare_scales<kB>(g, plan, batch, tile, out);
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_PREPARE_H_
