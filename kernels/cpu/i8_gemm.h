// i8dot: D = A x B^T with exact integer block sums. A: int8, int4, uint4 or e2m1 (run time); B: kB = int8,
// int4, uint4 or e2m1 (compile time), packed as SG_PANEL_K4X16 or raw with any strides; scales on either
// side.
//
//   prepare   A -> int8 row tiles with segment sums (i8_prepare.h), one unit a tile
//   compute   one unit = up to 4 panels of 16 columns x up to 16 row tiles:
//               panels: in place, or made from raw weights in scratch (i8_panel.h)
//               tile outer, panel inner: a tile (14 x K bytes) stays in L2 while the panels pass, the panels
//               (4 x 16 x K bytes) while the tiles pass. No K blocking: K = 4096 runs at the speed of K =
//               512. M <= 4: all panels of the unit in one kernel call, every weight byte is read once
//
// The sums of a segment are exact, segments are added in order of K in f32 (fma), so the bits of a row of D
// depend neither on M nor on how units are split over threads.
//
// An instance is one translation unit (flags: -march=x86-64-v3, or that and -mavx512{f,bw,vl,dq,vnni}):
//
//   #include "cpu/i8_gemm.h"
//   SG_CPU_KERNEL(symbol, "name", scalegemm_kernel::I8Gemm<SG_E2M1>)
//
// What it takes is decided by src/arch/cpu_family.cc. Memory: workspace M * K bytes and M * K/block * 8;
// scratch a few KB, and 4 * 16 * K bytes for raw weights.
#ifndef SCALEGEMM_KERNELS_CPU_I8_GEMM_H_
#define SCALEGEMM_KERNELS_CPU_I8_GEMM_H_

#include "cpu/epilogue.h"
#include "cpu/i8_panel.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

using I8Kernel = void (*)(const I8TileArgs&);

template <int kB, int kRows>
inline I8Kernel i8_many_rows(I8Mode mode) {
  switch (mode) {
    case I8Mode::kWhole:
      return &i8_tile<kB, kRows, I8Mode::kWhole>;
    case I8Mode::kColumn:
      return &i8_tile<kB, kRows, I8Mode::kColumn>;
    default:
      return &i8_tile<kB, kRows, I8Mode::kBoth>;
  }
}

template <int kB, int kRows, I8Mode kMode>
inline I8Kernel i8_kernel_of_scale(int scale_type) {
  switch (scale_type) {
    case SG_E8M0:
      return &i8_tile<kB, kRows, kMode, SG_E8M0>;
    case SG_F16:
      return &i8_tile<kB, kRows, kMode, SG_F16>;
    case SG_BF16:
      return &i8_tile<kB, kRows, kMode, SG_BF16>;
    case SG_E4M3:
      return &i8_tile<kB, kRows, kMode, SG_E4M3>;
    default:
      return &i8_tile<kB, kRows, kMode, SG_F32>;
  }
}

template <int kB, int kRows>
inline I8Kernel i8_few_rows(I8Mode mode, int scale_type) {
  switch (mode) {
    case I8Mode::kWhole:
      return &i8_tile<kB, kRows, I8Mode::kWhole>;
    case I8Mode::kColumn:
      return i8_kernel_of_scale<kB, kRows, I8Mode::kColumn>(scale_type);
    default:
      return i8_kernel_of_scale<kB, kRows, I8Mode::kBoth>(scale_type);
  }
}

template <int kB>
inline I8Kernel i8_kernel(int64_t rows, I8Mode mode, int scale_type) {
  switch (rows) {
    case 1:
      return i8_few_rows<kB, 1>(mode, scale_type);
    case 2:
      return i8_few_rows<kB, 2>(mode, scale_type);
    case 4:
      return i8_few_rows<kB, 4>(mode, scale_type);
#if SG_CPU_AVX512
    case 8:
      return i8_many_rows<kB, 8>(mode);
    case 10:
      return i8_many_rows<kB, 10>(mode);
    case 12:
      return i8_many_rows<kB, 12>(mode);
    case 14:
      return i8_many_rows<kB, 14>(mode);
#endif
    default:
      return i8_many_rows<kB, 6>(mode);
  }
}

// int32 sums straight to D.
inline void i8_write_integers(const SgGemm& g, const OutputBlock& at, const float* sums, int64_t stride) {
  uint8_t* d = static_cast<uint8_t*>(g.d) +
               (at.batch * g.d_stride_batch + at.m * g.d_stride_m + at.n * g.d_stride_n) * 4;
  for (int64_t i = 0; i < at.rows; ++i) {
    if (g.d_stride_n == 1) {
      __builtin_memcpy(d + i * g.d_stride_m * 4, sums + i * stride, static_cast<size_t>(at.columns) * 4);
      continue;
    }
    for (int64_t j = 0; j < at.columns; ++j) {
      __builtin_memcpy(d + (i * g.d_stride_m + j * g.d_stride_n) * 4, sums + i * stride + j, 4);
    }
  }
}

// One group of panels of one batch index, ready for every row tile.
struct I8Group {
  int64_t batch, panel, panels;
  I8Panel panel_of[kMaxUnitPanels];
  alignas(64) float factors[kMaxUnitPanels][kPanelColumns];
};

template <int kB>
struct I8Gemm {
  static uint64_t workspace_bytes(const SgGemm* g) {
    return static_cast<uint64_t>(i8_prepared_bytes(i8_plan<kB>(*g)) * g->batch);
  }

  static uint64_t scratch_bytes(const SgGemm* g) {
    const I8Plan plan = i8_plan<kB>(*g);
    const I8Scratch s = i8_scratch<kB>(*g, plan);
    return static_cast<uint64_t>(plan.unit_panels * (s.panel_bytes + s.scale_bytes + s.zero_bytes));
  }

  static int64_t prepare_units(const SgGemm* g) { return i8_plan<kB>(*g).tiles * g->batch; }

  static void prepare(const SgGemm* g, int64_t begin, int64_t end, void*) {
    const DefaultFloatMode mode;
    const I8Plan plan = i8_plan<kB>(*g);
    for (int64_t u = begin; u < end; ++u) {
      i8_prepare_tile<kB>(*g, plan, u / plan.tiles, u % plan.tiles);
    }
  }

  static int64_t compute_units(const SgGemm* g) {
    const I8Plan plan = i8_plan<kB>(*g);
    return g->batch * plan.groups * plan.chunks;
  }

  // Units count chunks of rows fastest, so that neighbours share a group of panels.
  static void compute(const SgGemm* g, int64_t begin, int64_t end, void* scratch) {
    const DefaultFloatMode mode;
    const I8Plan plan = i8_plan<kB>(*g);
    I8Group group;
    int64_t have = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t wanted = u / plan.chunks;
      if (wanted != have) {
        make_group(*g, plan, wanted, static_cast<uint8_t*>(scratch), group);
        have = wanted;
      }
      const int64_t first = u % plan.chunks * plan.chunk_tiles;
      const int64_t last = first + plan.chunk_tiles < plan.tiles ? first + plan.chunk_tiles : plan.tiles;
      for (int64_t tile = first; tile < last; ++tile) {
        compute_tile(*g, plan, group, tile);
      }
    }
  }

 private:
  static void make_group(const SgGemm& g, const I8Plan& plan, int64_t index, uint8_t* scratch, I8Group& out) {
    const I8Scratch size = i8_scratch<kB>(g, plan);
    out.batch = index / plan.groups;
    out.panel = index % plan.groups * plan.unit_panels;
    out.panels = plan.panels - out.panel < plan.unit_panels ? plan.panels - out.panel : plan.unit_panels;
    uint8_t* codes = scratch;
    uint8_t* scales = codes + plan.unit_panels * size.panel_bytes;
    uint8_t* zeros = scales + plan.unit_panels * size.scale_bytes;
    for (int64_t p = 0; p < out.panels; ++p) {
      I8Panel& to = out.panel_of[p];
      const int64_t panel = out.panel + p;
      if (g.b.packed) {
        to.codes = static_cast<const uint8_t*>(g.b.data) + out.batch * g.b.stride_batch +
                   panel * sg_panel_bytes(SG_PANEL_K4X16, is_4bit(kB) ? 4 : 8, g.k);
      } else {
        to.codes = codes + p * size.panel_bytes;
        i8_make_panel<kB>(g, out.batch, panel, 0, i8_units(g.b, g.k), codes + p * size.panel_bytes);
      }
      i8_set_scales<kB>(g, plan, out.batch, panel, scales + p * size.scale_bytes, out.factors[p], to);
      i8_set_zeros(g, plan, out.batch, panel, zeros + p * size.zero_bytes, to);
    }
  }

  static void compute_tile(const SgGemm& g, const I8Plan& plan, const I8Group& group, int64_t tile) {
    constexpr int64_t kStride = kMaxUnitPanels * kPanelColumns;
    alignas(64) float sums[kMaxRows * kStride];
    const int64_t row = plan.tile_row(tile);
    const int scale_type = i8_direct_scales(g, plan) ? g.b.scale.dtype : SG_F32;
    const I8Kernel kernel = i8_kernel<kB>(plan.tile_rows(tile), plan.mode, scale_type);
    I8TileArgs args;
    args.a = i8_tile_of(i8_prepared(g, plan, group.batch), plan, tile);
    args.segments = plan.segments;
    args.segment_steps = plan.segment_steps;
    args.last_steps = plan.last_steps;
    args.flush_steps = plan.flush_steps;
    args.integers = g.d_dtype == SG_INT32;
    args.out_stride = kStride;
    for (int64_t p = 0; p < group.panels; ++p) {
      args.b = group.panel_of[p];
      args.out = sums + p * kPanelColumns;
      kernel(args);
    }
    const int64_t rows = g.m - row < plan.tile_rows(tile) ? g.m - row : plan.tile_rows(tile);
    for (int64_t n = 0; n < group.panels * kPanelColumns; n += kGroup) {
      const int64_t column = group.panel * kPanelColumns + n;
      const int64_t columns = g.n - column < kGroup ? g.n - column : kGroup;
      const OutputBlock block = {group.batch, row, column, static_cast<int>(rows), static_cast<int>(columns)};
      if (args.integers) {
        i8_write_integers(g, block, sums + n, kStride);
      } else {
        write_block(g, block, sums + n, kStride);
      }
    }
  }
};

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_GEMM_H_
