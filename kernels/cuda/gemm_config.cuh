// What one generated GEMM kernel is: a constant of this type is the template argument of the kernels in this
// folder.
//
// The kernels speak of X and Y: X is the operand on the 64-row side of wgmma, Y the one on its N side.
// Without swap_ab X = A and Y = B; with it X = B (the weights) and Y = A (few tokens), and the tile of D
// leaves transposed.
#pragma once
#include "cuda/abi.h"
#include "cuda/base.cuh"

namespace scalegemm::cuda {

// Rows of an operand that share one scale, and how far along K: kTensor and kRow span all of K and are
// applied once, in the epilogue; kBlock1 (1 x promote_k) and kBlock128 (128 x promote_k) are applied whenever
// promote_k elements have been summed.
enum class Scale : u8 {
  kNone = SG_SCALE_NONE,
  kTensor = SG_SCALE_TENSOR,
  kRow = SG_SCALE_ROW,
  kBlock1 = SG_SCALE_BLOCK_1,
  kBlock128 = SG_SCALE_BLOCK_128
};

SG_CONSTEXPR bool is_block(Scale s) {
  return s == Scale::kBlock1 || s == Scale::kBlock128;
}
SG_CONSTEXPR bool spans_k(Scale s) {
  return s == Scale::kTensor || s == Scale::kRow;
}

struct GemmConfig {
  Type a = Type::kE4m3, b = Type::kE4m3, d = Type::kBf16;
  Scale scale_a = Scale::kTensor, scale_b = Scale::kTensor;
  u32 tile_x = 128;       // rows of X in a tile: 64 for each wgmma row block
  u32 tile_y = 256;       // rows of Y in a tile
  u32 consumers = 2;      // warpgroups that multiply: each has tile_x / consumers rows (or pingpong)
  bool pingpong = false;  // consumers take whole tiles in turn: one multiplies while the other stores
  u32 stages = 4;         // pipeline depth, each 128 bytes of K
  u32 cluster_x = 1;      // CTAs along X that share (multicast) their Y tile
  u32 cluster_y = 1;      // CTAs along Y that share their X tile
  u32 promote_k = 0;      // elements of K between fp32 promotions; 0: the tensor core accumulates all of K
  bool carried = false;   // promoted: the next step's chain multiplies while this one is promoted
  u32 split_k = 1;        // CTAs of a cluster that share one tile's K (scaled_gemm_splitk_sm90 only)
  bool swap_ab = false;
  // Block scales come with the operands by TMA, which wants them as the quantisers write them: 1 x k scales
  // contiguous along rows, 128 x k scales contiguous along K, every line padded to 16 bytes. Strided scales
  // take any layout and a warp of their own, and cost a large GEMM up to a fifth of its speed.
  bool strided_scales = false;
  // Block scales as e8m0 bytes (of MX checkpoints): strided, K blocks side by side, lines of whole 4-byte
  // words. A stage holds the word with the codes of its K blocks; consumers make f32 of them.
  bool e8m0_a = false, e8m0_b = false;
  bool fused = false;  // the epilogue applies beta * C, bias, activation and clamp

  SG_CONSTEXPR Type x() const { return swap_ab ? b : a; }
  SG_CONSTEXPR Type y() const { return swap_ab ? a : b; }
  SG_CONSTEXPR Scale scale_x() const { return swap_ab ? scale_b : scale_a; }
  SG_CONSTEXPR Scale scale_y() const { return swap_ab ? scale_a : scale_b; }
  SG_CONSTEXPR bool e8m0_x() const { return swap_ab ? e8m0_b : e8m0_a; }
  SG_CONSTEXPR bool e8m0_y() const { return swap_ab ? e8m0_a : e8m0_b; }
  SG_CONSTEXPR bool block_scaled() const { return is_block(scale_a) || is_block(scale_b); }
  SG_CONSTEXPR bool promoted() const { return promote_k != 0; }
  SG_CONSTEXPR u32 step_k() const { return kStepBytes / bytes_of(a); }  // elements of K in a step
  SG_CONSTEXPR u32 cluster() const { return cluster_x * cluster_y; }
  SG_CONSTEXPR u32 readers() const { return pingpong ? 1 : consumers; }  // warpgroups that read one stage
  SG_CONSTEXPR u32 threads() const { return (consumers + 1) * kWarpgroup; }
  SG_CONSTEXPR u32 rows_per_consumer() const { return pingpong ? tile_x : tile_x / consumers; }
  SG_CONSTEXPR u32 row_blocks() const { return rows_per_consumer() / kMmaRows; }
  // Promotions inside one step (1 for promote_k = 128 with 8-bit operands).
  SG_CONSTEXPR u32 parts() const { return promoted() ? step_k() / promote_k : 1; }
  // Registers a thread: the file holds 65,536; the loading warpgroup keeps few, the consumers share the rest
  // in eights. (One consumer and the loader have 255 each anyhow.)
  SG_CONSTEXPR u32 loader_registers() const { return consumers == 3 ? 32 : 40; }
  SG_CONSTEXPR u32 consumer_registers() const { return consumers == 3 ? 160 : 232; }
};

// What is wrong with a configuration, as a compile error.
template <GemmConfig c>
SG_CONSTEXPR void check_config() {
  static_assert(bytes_of(c.a) == bytes_of(c.b), "both operands have one element size");
  static_assert(c.rows_per_consumer() == c.row_blocks() * kMmaRows && c.tile_x % c.rows_per_consumer() == 0,
                "64-row blocks fill the tile");
  static_assert(c.d != Type::kInt32 || (c.a == Type::kInt8 && c.b == Type::kInt8 && !c.promoted() &&
                                        c.scale_a == Scale::kNone && c.scale_b == Scale::kNone && !c.fused),
                "int32: the exact sums");
  static_assert(!c.fused || c.row_blocks() * c.tile_y <= 352,
                "a fused epilogue needs registers beside the sums");
  static_assert(c.tile_y % 8 == 0 && c.tile_y <= 256, "tile_y is a wgmma N");
  static_assert(c.promoted() || !c.block_scaled(), "block scales are applied by promotion");
  static_assert((!c.e8m0_a || (c.strided_scales && is_block(c.scale_a))) &&
                    (!c.e8m0_b || (c.strided_scales && is_block(c.scale_b))),
                "e8m0 block scales come by the scale warp");
  static_assert(c.step_k() % max_of(c.promote_k, 1) == 0, "promotions divide a step");
  static_assert(c.cluster_x == 1 || c.cluster_y == 1, "a cluster extends along one side");
  static_assert(!c.pingpong || (c.consumers == 2 && !c.promoted()), "pingpong is for the fast main loop");
  static_assert(!c.carried || (c.promoted() && c.parts() * c.row_blocks() == 1),
                "a carried chain is a whole step");
  static_assert(!c.carried || c.scale_y() != Scale::kBlock1, "a carried chain reads its scales first");
}

}  // namespace scalegemm::cuda
