// Block-scaled GEMM with one narrow side on sm_90a, K split in a cluster. Few tokens: swap_ab puts the
// weights (B) on the 64-row side of wgmma (X) and the tokens (A) on its N side (Y). Narrow weights: the
// other way round.
//
//      Y: tokens (8..128)    grid: (tiles of X * split_k, tiles of Y), cluster (split_k, 1)
//     +--------+             CTA: 1 or 2 consumer warpgroups, 1 TMA warp, 1 scale warp
//  X: | 64 or  |             several CTAs an SM where shared memory allows
//  w  | 128    |             K: rank r of the cluster sums steps [S r / split_k, S (r + 1) / split_k)
//  e  | rows   |
//     +--------+
//
// A decode GEMM is a read of the weights: the budget is bytes in flight. 4.3 TB/s at about 1 us under load
// is 4.3 MB in flight on the chip, 33 KB an SM: every SM must hold a stage ring of more than that, and hold
// it from the first microsecond, so the grid is sized to have every CTA resident at once. The tensor work is
// small change (m64n16k32 = 8 cycles for each 2 KB of weights).
// Reduction, deterministic: every CTA leaves its fp32 partial tile in its own shared memory (fragment order,
// so conflict free); after a cluster barrier rank r sums accumulator registers [R r / split_k,
// R (r + 1) / split_k) of all ranks in rank order, scales and stores.
// Registers: tile_y / 2 accumulators (twice when promoted), no setmaxnreg needed. Limits: as
// scaled_gemm_sm90; split_k <= 8.
#pragma once
#include "scaled_gemm_sm90.cuh"

namespace scalegemm::cuda {

template <GemmConfig c>
struct SplitPlan {
  static constexpr u32 kThreads = c.consumers * kWarpgroup + 2 * kWarp;
  static constexpr u32 kConsumers = c.consumers * kWarpgroup;
  static constexpr u32 kRegisters = c.row_blocks() * c.tile_y / 2;  // accumulators of one thread
  static constexpr u32 kEach = ceil_div(kRegisters, c.split_k);     // of which one rank finishes
  static constexpr u32 kBytes = StageLayout<c>::kFree;
  static_assert(c.split_k == 1 || kRegisters * kConsumers * 4 <= c.stages * StageLayout<c>::kBytes,
                "the partial tile reuses the stages");
  static_assert(c.cluster() == 1, "no multicast: the cluster shares K");
  static_assert(c.row_blocks() <= 2, "a thread's row blocks are told apart by one select");
};

// The operands as the kernel sees them: X on the row side, Y on the other.
template <GemmConfig c>
struct Sides {
  ScaleView scale_x, scale_y;
  u32 rows_x, rows_y;
  SG_DEVICE explicit Sides(const GemmParams& p)
      : scale_x(c.swap_ab ? p.scale_b : p.scale_a),
        scale_y(c.swap_ab ? p.scale_a : p.scale_b),
        rows_x(c.swap_ab ? p.n : p.m),
        rows_y(c.swap_ab ? p.m : p.n) {}
};

// Everything one consumer thread needs to finish its share of the tile: accumulator i of `kEach` is register
// rank * kEach + i.
template <GemmConfig c>
struct SplitEpilogue {
  using Plan = SplitPlan<c>;
  Sides<c> sides;
  u32 first;   // first register of this rank
  u32 x0, y0;  // rows of X and Y of this thread's fragment
  Float2 scales_x[c.row_blocks()];
  float scales_y[Plan::kEach];

  SG_DEVICE static u32 block(u32 r) { return r / (c.tile_y / 2); }
  SG_DEVICE u32 row_x(u32 r) const { return x0 + block(r) * kMmaRows + (r / 2 % 2) * 8; }
  SG_DEVICE u32 row_y(u32 r) const { return y0 + r % (c.tile_y / 2) / 4 * 8 + r % 2; }

  // Loads the scales before the main loop, so that their latency is hidden by it.
  SG_DEVICE SplitEpilogue(const GemmParams& p, const Consumer<c>& me, u32 tile_x0, u32 tile_y0, u32 rank)
      : sides(p) {
    first = rank * Plan::kEach, x0 = tile_x0 + me.row(0), y0 = tile_y0 + me.column();
#pragma unroll
    for (u32 b = 0; b < c.row_blocks(); ++b)
      scales_x[b] = {scale_of<c.scale_x()>(sides.scale_x, x0 + b * kMmaRows, sides.rows_x),
                     scale_of<c.scale_x()>(sides.scale_x, x0 + b * kMmaRows + 8, sides.rows_x)};
#pragma unroll
    for (u32 i = 0; i < Plan::kEach; ++i)
      scales_y[i] = scale_of<c.scale_y()>(sides.scale_y, row_y(first + i), sides.rows_y);
  }
  template <Scale kScale>
  SG_DEVICE static float scale_of(const ScaleView& view, u32 row, u32 rows) {
    if constexpr (kScale == Scale::kTensor)
      return *view.data;
    if constexpr (kScale == Scale::kRow)
      return row < rows ? view.data[static_cast<u64>(row) * view.stride_row] : 0.0f;
    return 1.0f;
  }

  SG_DEVICE void store(const Output& d, u32 i, float sum) const {
    const u32 r = first + i, x = row_x(r), y = row_y(r);
    if (r >= Plan::kRegisters || x >= sides.rows_x || y >= sides.rows_y)
      return;
    const Float2 s = c.row_blocks() == 1 || block(r) == 0 ? scales_x[0] : scales_x[c.row_blocks() - 1];
    const float v = sum * ((r / 2 % 2 ? s.y : s.x) * scales_y[i]);
    const u64 at = c.swap_ab ? static_cast<u64>(y) * d.stride + x : static_cast<u64>(x) * d.stride + y;
    if constexpr (bytes_of(c.d) == 4)
      static_cast<float*>(d.data)[at] = v;
    else
      static_cast<u16*>(d.data)[at] = static_cast<u16>(c.d == Type::kF16 ? pack_f16(v, v) : pack_bf16(v, v));
  }
};

// Address in the partial tile of register r of consumer thread t.
template <GemmConfig c>
SG_DEVICE u32 partial_address(u32 shared, u32 r, u32 t) {
  return shared + 4 * (r * SplitPlan<c>::kConsumers + t);
}

template <GemmConfig c>
SG_DEVICE void publish_partials(const Consumer<c>& me, u32 shared) {
  barrier_sync(1, SplitPlan<c>::kConsumers);  // every consumer has read its last stage
#pragma unroll
  for (u32 r = 0; r < SplitPlan<c>::kRegisters; ++r)
    store_shared(partial_address<c>(shared, r, threadIdx.x),
                 static_cast<float>(me.acc[r / (c.tile_y / 2)][r % (c.tile_y / 2)]));
}

template <GemmConfig c>
SG_DEVICE float sum_partials(u32 shared, u32 r) {
  float part[c.split_k], sum = 0;
#pragma unroll
  for (u32 s = 0; s < c.split_k; ++s)
    part[s] = load_shared_remote(partial_address<c>(shared, r, threadIdx.x), s);
#pragma unroll
  for (u32 s = 0; s < c.split_k; ++s)
    sum += part[s];
  return sum;
}

template <GemmConfig c>
SG_DEVICE void run_split_loader(const TensorMap* map_a, const TensorMap* map_b, const GemmParams& p,
                                Ring<c> ring, const Span& span) {
  const u32 warp = threadIdx.x / kWarp - c.consumers * 4, lane = threadIdx.x % kWarp;
  const Sides<c> sides(p);
  const ScaleJob job = {sides.scale_x, sides.scale_y, sides.rows_x, sides.rows_y, p.scale_blocks};
  if (warp == 0 && lane == 0)
    load_tiles<c>(ring, c.swap_ab ? map_b : map_a, c.swap_ab ? map_a : map_b, job, span, 0);
  if (c.strided_scales && warp == 1)
    copy_scales<c>(ring, job, span, lane);
  __syncwarp();
}

template <GemmConfig c>
SG_DEVICE void scaled_gemm_splitk_sm90(const TensorMap* map_a, const TensorMap* map_b, const GemmParams& p) {
  check_config<c>();
  using Plan = SplitPlan<c>;
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory), rank = c.split_k > 1 ? cluster_rank() : 0;
  const u32 steps = ceil_div(p.k, c.step_k()), from = steps * rank / c.split_k,
            to = steps * (rank + 1) / c.split_k;
  const u32 x0 = blockIdx.x / c.split_k * c.tile_x, y0 = blockIdx.y * c.tile_y;
  Ring<c> ring(shared);
  if (threadIdx.x == Plan::kConsumers) {
    tma_prefetch_map(map_a);
    tma_prefetch_map(map_b);
    ring.init_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= Plan::kConsumers) {
    run_split_loader<c>(map_a, map_b, p, ring, {x0, y0, from, to});
    if constexpr (c.split_k > 1) {
      cluster_arrive();
      cluster_wait();
      cluster_arrive();
      cluster_wait();
    }
    return;
  }
  Consumer<c> me(warp_uniform(threadIdx.x / kWarpgroup), threadIdx.x % kWarpgroup);
  const SplitEpilogue<c> epilogue(p, me, x0, y0, rank);
  me.first_step = from, me.scale_blocks = p.scale_blocks, me.y_phase = y0 % 128;
  me.run(ring, to - from);
  if constexpr (c.split_k == 1) {
#pragma unroll
    for (u32 r = 0; r < Plan::kRegisters; ++r)
      epilogue.store(p.d, r, static_cast<float>(me.acc[r / (c.tile_y / 2)][r % (c.tile_y / 2)]));
  } else {
    publish_partials(me, shared);
    cluster_arrive();
    cluster_wait();  // partner: every rank's arrival after its partials are written
#pragma unroll
    for (u32 i = 0; i < Plan::kEach; ++i)
      if (epilogue.first + i < Plan::kRegisters)
        epilogue.store(p.d, i, sum_partials<c>(shared, epilogue.first + i));
    cluster_arrive();
    cluster_wait();  // partner: every rank's arrival after it has read its peers; only then may shared memory
                     // go away
  }
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_SPLITK_SM90(symbol, config)                                         \
  extern "C" __global__ void __launch_bounds__(scalegemm::cuda::SplitPlan<config>::kThreads) \
      symbol(const __grid_constant__ scalegemm::cuda::TensorMap map_a,                       \
             const __grid_constant__ scalegemm::cuda::TensorMap map_b,                       \
             const __grid_constant__ scalegemm::cuda::GemmParams params) {                   \
    scalegemm::cuda::scaled_gemm_splitk_sm90<config>(&map_a, &map_b, params);                \
  }
