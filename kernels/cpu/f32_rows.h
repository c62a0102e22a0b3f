// A for the f32 kernels: decoded once a call into f32 row panels in the shared workspace, scale, zero point
// and global scale folded in:
//
//   value = (code - zero) * (scale * global)
//
//   workspace of a batch   [chunk of k][row tile][k in chunk][row in tile] f32
//
// so that the block of A that one unit works on is one run of memory (no two tiles fight for the same cache
// sets). M rows are cut into ceil(M / most) tiles whose sizes differ by at most one (M = 16 gives 8 + 8 for
// 14-row tiles, not 14 + 2), the larger ones first. The panel of a tile that begins at row m starts at m*K
// floats, so the workspace of a batch is exactly M*K floats.
#ifndef SCALEGEMM_KERNELS_CPU_F32_ROWS_H_
#define SCALEGEMM_KERNELS_CPU_F32_ROWS_H_

#include "cpu/weights.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// The cut of `total` into `count` parts of sizes that differ by at most one.
struct EvenCut {
  int64_t total, count;

  static EvenCut of_at_most(int64_t total, int64_t most) { return {total, ceil_div(total, most)}; }
  int64_t begin(int64_t part) const {
    const int64_t extra = total % count;
    return part * (total / count) + least(part, extra);
  }
  int64_t size(int64_t part) const { return begin(part + 1) - begin(part); }
};

// How D is cut into units: row tiles are grouped into row blocks, panels into column blocks.
struct BlockUnits {
  EvenCut rows;     // of tiles
  EvenCut columns;  // of panels

  struct Most {
    int64_t panels, tiles;  // of a unit
  };

  // Enough units for a few threads to share, from the sizes alone: first fewer panels a unit, then fewer
  // rows.
  static BlockUnits of(int64_t batch, int64_t panels, int64_t tiles, Most most) {
    constexpr int64_t kEnough = 16;
    const auto count = [&] { return batch * ceil_div(panels, most.panels) * ceil_div(tiles, most.tiles); };
    while (most.panels > 1 && count() < kEnough) {
      most.panels /= 2;
    }
    while (most.tiles > 2 && count() < kEnough) {
      most.tiles /= 2;
    }
    return {EvenCut::of_at_most(tiles, most.tiles), EvenCut::of_at_most(panels, most.panels)};
  }
};

// Rows of A as f32.
class RowDecoder {
 public:
  RowDecoder(const SgGemm& g, int64_t batch) : a_(g.a), k_(g.k), batch_(batch), type_(g.a.dtype) {
    decode_ = find_decode_run(type_);
    per_element_ = is_4bit(type_) ? 2 : 1;
    size_ = storage_bytes(type_);
    const bool blocks = a_.scale.data || a_.zero.data;
    block_k_ = blocks && a_.scale.block_k >= 1 ? a_.scale.block_k : k_;
    block_r_ = a_.scale.block_r >= 1 ? a_.scale.block_r : g.m;
    global_ = a_.global_scale ? *a_.global_scale : 1.0f;
  }

  // (code - zero) * scale * global. out holds k1 - k0 + 2*kGroup floats. k0 is even for 4-bit types.
  void decode_row(int64_t m, int64_t k0, int64_t k1, float* out) const {
    decode_codes(m, k0, k1, out);
    apply_scales(m, k0, k1, out);
  }

  // code - zero.
  void decode_unscaled(int64_t m, int64_t k0, int64_t k1, float* out) const {
    decode_codes(m, k0, k1, out);
    for (int64_t k = k0; a_.zero.data && k < k1; ++k) {
      out[k - k0] -= value(a_.zero, m, k / block_k_, 0.0f);
    }
  }

  // scale * global of k block kb.
  float scale(int64_t m, int64_t kb) const { return value(a_.scale, m, kb, 1.0f) * global_; }

 private:
  void decode_codes(int64_t m, int64_t k0, int64_t k1, float* out) const {
    const uint8_t* row =
        static_cast<const uint8_t*>(a_.data) +
        (batch_ * a_.stride_batch + m * a_.stride_r + k0 / per_element_ * a_.stride_k) * size_;
    const int64_t elements = ceil_div(k1 - k0, per_element_);
    for (int64_t e = 0; e < elements; e += kGroup, out += kGroup * per_element_) {
      const int count = static_cast<int>(least(elements - e, kGroup));
      decode_piece(row + e * a_.stride_k * size_, count, out);
    }
  }

  // `count` storage elements to f32 in order of k; a 4-bit pair gives two.
  void decode_piece(const uint8_t* p, int count, float* out) const {
    alignas(64) uint8_t codes[group_bytes(SG_F32)];
    if (count < kGroup || a_.stride_k != 1) {
      __builtin_memset(codes, 0, sizeof(codes));
      for (int i = 0; i < count; ++i) {
        copy(p + i * a_.stride_k * size_, codes + i * size_);
      }
      p = codes;
    }
    if (per_element_ == 1) {
      decode_(p, 1, 1.0f, out);
      return;
    }
    alignas(64) float halves[2 * kGroup];
    decode_(p, 1, 1.0f, halves);
    for (int i = 0; i < kGroup; ++i) {
      out[2 * i] = halves[i];
      out[2 * i + 1] = halves[kGroup + i];
    }
  }

  void copy(const uint8_t* from, uint8_t* to) const {
    if (size_ == 1) {
      *to = *from;
    } else if (size_ == 2) {
      copy_element<2>(from, to);
    } else {
      copy_element<4>(from, to);
    }
  }

  void apply_scales(int64_t m, int64_t k0, int64_t k1, float* x) const {
    if (!a_.scale.data && !a_.zero.data && !a_.global_scale) {
      return;
    }
    for (int64_t k = k0; k < k1;) {
      const int64_t kb = k / block_k_;
      const int64_t end = least(k1, (kb + 1) * block_k_);
      const float zero_point = value(a_.zero, m, kb, 0.0f);
      const float factor = scale(m, kb);
      for (; k < end; ++k) {
        x[k - k0] = (x[k - k0] - zero_point) * factor;
      }
    }
  }

  float value(const SgScale& s, int64_t m, int64_t kb, float absent) const {
    if (!s.data) {
      return absent;
    }
    const int64_t index = batch_ * s.stride_batch + m / block_r_ * s.stride_r + kb * s.stride_k;
    return load_element(s.data, index, s.dtype);
  }

  const SgOperand& a_;
  int64_t k_, batch_;
  int type_, per_element_ = 1, size_ = 1;
  DecodeRun decode_ = nullptr;
  int64_t block_k_ = 1, block_r_ = 1;
  float global_ = 1.0f;
};

// Floats from one decoded row to the next in the scratch of prepare_rows, for k1 - k0 = depth.
constexpr int64_t row_pitch(int64_t depth) {
  return (depth + kGroup - 1) / kGroup * kGroup + 2 * kGroup;
}

// Scratch of one decoded row, in bytes.
constexpr int64_t row_scratch_bytes(int64_t depth) {
  return row_pitch(depth) * 4;
}

// Rows of `in` (row_pitch(depth) apart) to [k][rows], four rows by four k at a time; the last four rows
// overlap the four before when rows is no multiple of four.
inline void turn_rows(const float* in, int64_t rows, int64_t depth, float* out) {
  const int64_t pitch = row_pitch(depth);
  const int64_t whole = rows < 4 ? 0 : depth / 4 * 4;
  for (int64_t i = 0; whole > 0 && i < rows; i += 4) {
    const int64_t row = least(i, rows - 4);
    for (int64_t k = 0; k < whole; k += 4) {
      transpose_square<4>(reinterpret_cast<const uint8_t*>(in + row * pitch + k), pitch * 4,
                          reinterpret_cast<uint8_t*>(out + k * rows + row), rows * 4);
    }
  }
  for (int64_t k = whole; k < depth; ++k) {
    for (int64_t i = 0; i < rows; ++i) {
      out[k * rows + i] = in[i * pitch + k];
    }
  }
}

// Decodes the rows of a tile, k in [k0, k1), into the panel [k - k0][rows].
inline void prepare_rows(const RowDecoder& decoder, const EvenCut& cut, int64_t tile, int64_t k0, int64_t k1,
                         float* panel, float* scratch) {
  const int64_t rows = cut.size(tile), depth = k1 - k0;
  for (int64_t i = 0; i < rows; ++i) {
    decoder.decode_row(cut.begin(tile) + i, k0, k1, scratch + i * row_pitch(depth));
  }
  turn_rows(scratch, rows, depth, panel);
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_F32_ROWS_H_
