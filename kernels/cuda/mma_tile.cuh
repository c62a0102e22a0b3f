// Products of one tile in registers: mma.sync (f16, bf16, int8) and plain FMA (f32) behind one interface.
//
// A thread holds kI x kJ sums; sum (i, j) belongs to row(i), column(j) of the tile. `t` sums one segment of
// K, `acc` what has been promoted.
#pragma once
#include "cuda/mma_load.cuh"

namespace scalegemm::cuda {

// What one kernel of the mma family is.
struct MmaConfig {
  SgDType a = SG_BF16, b = SG_BF16;
  Via via = Via::kBf16;
  u32 tile_m = 128, tile_n = 128;
  u32 warps_m = 2, warps_n = 4;
  u32 warps_k = 1;  // warps that share a tile's K: each has a slab of every stage, sums meet at the end
  u32 stages = 2;
  u32 ctas = 1;  // of a multiprocessor: what the register budget is made for

  SG_CONSTEXPR u32 threads() const { return warps_m * warps_n * warps_k * kWarp; }
  SG_CONSTEXPR u32 slab_depth() const { return 128 / bytes_of(via); }  // elements of K
  SG_CONSTEXPR u32 depth() const { return slab_depth() * warps_k; }    // of a stage
  // Elements of K that one multiplication step takes: the granule of segments inside a stage.
  SG_CONSTEXPR u32 step() const { return via == Via::kF32 ? 4 : 32 / bytes_of(via); }
  SG_CONSTEXPR u32 steps() const { return slab_depth() / step(); }
};

template <MmaConfig c>
SG_CONSTEXPR void check_mma_config() {
  static_assert(is_exact(c.a, c.via) && is_exact(c.b, c.via), "an operand would be rounded");
  static_assert(c.via == Via::kF32 || (c.tile_m % (16 * c.warps_m) == 0 && c.tile_n % (16 * c.warps_n) == 0),
                "16 x 16 fragments");
  static_assert(c.threads() % c.tile_m == 0 && c.threads() % c.tile_n == 0,
                "a thread loads one row's scales");
  static_assert(c.via != Via::kF32 || (c.threads() == 256 && c.warps_k == 1), "16 x 16 threads");
  static_assert(c.stages >= 2, "one stage is filled while another is read");
}

SG_DEVICE void load_matrices(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

SG_DEVICE void load_matrices_transposed(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

#define SG_MMA(TEXT, C)                                                                           \
  asm("mma.sync.aligned." TEXT " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : C(d0), C(d1), C(d2), C(d3)                                                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <Via kVia>
SG_DEVICE void multiply_16x8(float& d0, float& d1, float& d2, float& d3, const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (kVia == Via::kF16)
    SG_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  else
    SG_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}
template <Via kVia>
SG_DEVICE void multiply_16x8(i32& d0, i32& d1, i32& d2, i32& d3, const u32 (&a)[4], u32 b0, u32 b1) {
  SG_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}
#undef SG_MMA

// What the tensor core sums in.
template <Via kVia>
struct ViaSum {
  using Type = float;
};
template <>
struct ViaSum<Via::kInt8> {
  using Type = i32;
};

// mma.sync: warps_m x warps_n warps, each kI / 2 fragments of 16 rows by kJ / 2 of 8 columns.
template <MmaConfig c>
struct MmaTile {
  static constexpr u32 kRows = c.tile_m / c.warps_m, kColumns = c.tile_n / c.warps_n;
  static constexpr u32 kI = kRows / 8, kJ = kColumns / 4;
  using Sum = typename ViaSum<c.via>::Type;

  u32 lane, row0, column0, slab;
  u32 a_at[kI / 2], b_at[kJ / 4];   // offsets of this lane's ldmatrix rows at step 0
  bool a_transposed, b_transposed;  // only 16-bit operands that are not decoded
  Sum t[kI][kJ];

  static constexpr bool kCanTransposeA = is_native(c.a, c.via) && bytes_of(c.via) == 2;
  static constexpr bool kCanTransposeB = is_native(c.b, c.via) && bytes_of(c.via) == 2;

  SG_DEVICE MmaTile() {
    const u32 warp = warp_uniform(threadIdx.x / kWarp);
    lane = threadIdx.x % kWarp;
    row0 = warp % c.warps_m * kRows;
    column0 = warp / c.warps_m % c.warps_n * kColumns;
    slab = warp / (c.warps_m * c.warps_n);
  }
  // Matrices of a fragment: A rows 0-7 and 8-15 at the first eight k, then at the second; B columns 0-7 at
  // both, then columns 8-15.
  SG_DEVICE void place(bool transposed_a, bool transposed_b) {
    a_transposed = transposed_a, b_transposed = transposed_b;
#pragma unroll
    for (u32 i = 0; i < kI / 2; ++i)
      a_at[i] = kCanTransposeA && a_transposed
                    ? transposed_offset<c.tile_m>(row0 + 16 * i + lane / 8 % 2 * 8,
                                                  slab * 64 + lane / 16 * 8 + lane % 8)
                    : tile_offset<c.tile_m>(row0 + 16 * i + lane % 16, slab * 128 + lane / 16 * kUnit);
#pragma unroll
    for (u32 j = 0; j < kJ / 4; ++j)
      b_at[j] = kCanTransposeB && b_transposed
                    ? transposed_offset<c.tile_n>(column0 + 16 * j + lane / 16 * 8,
                                                  slab * 64 + lane / 8 % 2 * 8 + lane % 8)
                    : tile_offset<c.tile_n>(column0 + 16 * j + lane / 16 * 8 + lane % 8,
                                            slab * 128 + lane / 8 % 2 * kUnit);
  }
  SG_DEVICE u32 row(u32 i) const {
    return row0 + i / 2 * 16 + i % 2 * 8 + lane / 4;
  }
  SG_DEVICE u32 column(u32 j) const {
    return column0 + j / 2 * 8 + lane % 4 * 2 + j % 2;
  }

  // t += A B over steps [first, first + count) of this warp's slab.
  SG_DEVICE void multiply(u32 tile_a, u32 tile_b, u32 first, u32 count) {
    if (kCanTransposeA && a_transposed) {
      if (kCanTransposeB && b_transposed)
        multiply_steps<kCanTransposeA, kCanTransposeB>(tile_a, tile_b, first, count);
      else
        multiply_steps<kCanTransposeA, false>(tile_a, tile_b, first, count);
    } else if (kCanTransposeB && b_transposed) {
      multiply_steps<false, kCanTransposeB>(tile_a, tile_b, first, count);
    } else {
      multiply_steps<false, false>(tile_a, tile_b, first, count);
    }
  }

 private:
  template <bool kTransposeA, bool kTransposeB>
  SG_DEVICE void multiply_steps(u32 tile_a, u32 tile_b, u32 first, u32 count) {
    if (count == c.steps()) {
#pragma unroll
      for (u32 s = 0; s < c.steps(); ++s)
        multiply_step<kTransposeA, kTransposeB>(tile_a, tile_b, s);
    } else {
#pragma unroll 1
      for (u32 s = first; s < first + count; ++s)
        multiply_step<kTransposeA, kTransposeB>(tile_a, tile_b, s);
    }
  }
  // Tiles are 128-byte aligned, so a step along K, 32 bytes, is an exclusive or of the swizzled address; in a
  // transposed tile it is 16 lines.
  template <bool kTranspose, u32 kTileRows>
  SG_DEVICE static void load_fragment(u32 (&r)[4], u32 address, u32 step) {
    if constexpr (kTranspose)
      load_matrices_transposed(r, address + step * 16 * (kTileRows < 64 ? kTileRows * 2 : 128));
    else
      load_matrices(r, address ^ (step * 32));
  }
  template <bool kTransposeA, bool kTransposeB>
  SG_DEVICE void multiply_step(u32 tile_a, u32 tile_b, u32 step) {
    u32 b[kJ / 4][4];
#pragma unroll
    for (u32 j = 0; j < kJ / 4; ++j)
      load_fragment<kTransposeB, c.tile_n>(b[j], tile_b + b_at[j], step);
#pragma unroll
    for (u32 i = 0; i < kI / 2; ++i) {
      u32 a[4];
      load_fragment<kTransposeA, c.tile_m>(a, tile_a + a_at[i], step);
#pragma unroll
      for (u32 j = 0; j < kJ / 2; ++j)
        multiply_16x8<c.via>(t[2 * i][2 * j], t[2 * i][2 * j + 1], t[2 * i + 1][2 * j],
                             t[2 * i + 1][2 * j + 1], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
};

// FMA: 16 x 16 threads; a thread has every sixteenth row and column.
template <MmaConfig c>
struct FmaTile {
  static constexpr u32 kI = c.tile_m / 16, kJ = c.tile_n / 16;
  using Sum = float;
  u32 row0, column0, slab = 0;
  Sum t[kI][kJ];

  SG_DEVICE FmaTile() : row0(threadIdx.x / 16), column0(threadIdx.x % 16) {}
  SG_DEVICE u32 row(u32 i) const { return row0 + 16 * i; }
  SG_DEVICE u32 column(u32 j) const { return column0 + 16 * j; }

  SG_DEVICE void place(bool, bool) {}

  SG_DEVICE void multiply(u32 tile_a, u32 tile_b, u32 first, u32 count) {
#pragma unroll 1
    for (u32 s = first; s < first + count; ++s)
      multiply_step(tile_a, tile_b, s);
  }

 private:
  SG_DEVICE void multiply_step(u32 tile_a, u32 tile_b, u32 step) {
    U32x4 b[kJ];
#pragma unroll
    for (u32 j = 0; j < kJ; ++j)
      b[j] = load_shared_16(tile_b + tile_offset<c.tile_n>(column(j), step * kUnit));
#pragma unroll
    for (u32 i = 0; i < kI; ++i) {
      const U32x4 a = load_shared_16(tile_a + tile_offset<c.tile_m>(row(i), step * kUnit));
#pragma unroll
      for (u32 j = 0; j < kJ; ++j) {
        t[i][j] = __fmaf_rn(__uint_as_float(a.x), __uint_as_float(b[j].x), t[i][j]);
        t[i][j] = __fmaf_rn(__uint_as_float(a.y), __uint_as_float(b[j].y), t[i][j]);
        t[i][j] = __fmaf_rn(__uint_as_float(a.z), __uint_as_float(b[j].z), t[i][j]);
        t[i][j] = __fmaf_rn(__uint_as_float(a.w), __uint_as_float(b[j].w), t[i][j]);
      }
    }
  }
};

template <MmaConfig c, bool kFma>
struct TileOf {
  using Type = MmaTile<c>;
};
template <MmaConfig c>
struct TileOf<c, true> {
  using Type = FmaTile<c>;
};

}  // namespace scalegemm::cuda
