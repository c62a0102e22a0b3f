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
#include "cuda/scaled_gemm_sm90.cuh"

namespace scalegemm::cuda {

template <GemmConfig c>
struct SplitPlan {
  static constexpr u32 kThreads = c.consumers * kWarpgroup + 2 * kWarp;
  static constexpr u32 kConsumers = c.consumers * kWarpgroup;
  static constexpr u32 kRegisters = c.row_blocks() * c.tile_y / 2;  // accumulators of one thread
  static constexpr u32 kEach = ceil_div(kRegisters, c.split_k);     // of which one rank finishes
  static constexpr u32 kBytes = StageLayout<c>::kFree;
  static constexpr bool kPublished = c.split_k > 1 || c.fused;  // sums pass through shared memory
  static_assert(!kPublished || kRegisters * kConsumers * 4 <= c.stages * StageLayout<c>::kBytes,
                "the partial tile reuses the stages");
  static_assert(c.cluster() == 1, "no multicast: the cluster shares K");
  static_assert(c.row_blocks() <= 2, "a thread's row blocks are told apart by one select");
};

// The operands as the kernel sees them: X on the row side, Y on the other.
template <GemmConfig c>
struct Sides {
  SgTmaScale scale_x, scale_y;
  u32 rows_x, rows_y;
  SG_DEVICE explicit Sides(const SgTmaGemm& p)
      : scale_x(c.swap_ab ? p.scale_b : p.scale_a),
        scale_y(c.swap_ab ? p.scale_a : p.scale_b),
        rows_x(c.swap_ab ? p.n : p.m),
        rows_y(c.swap_ab ? p.m : p.n) {}
};

// What a thread adds up at the end, and stores: int32 sums stay integers.
template <Type kD>
struct SplitSum {
  using Type = float;
};
template <>
struct SplitSum<Type::kInt32> {
  using Type = i32;
};

// Everything one consumer thread needs to finish its share of the tile: accumulator i of `kEach` is register
// rank * kEach + i.
template <GemmConfig c>
struct SplitEpilogue {
  using Plan = SplitPlan<c>;
  using Sum = typename SplitSum<c.d>::Type;
  static constexpr u32 kHeld = c.fused ? 1 : Plan::kEach;
  const SgTmaGemm& p;
  Sides<c> sides;
  u32 first;   // first register of this rank
  u32 x0, y0;  // rows of X and Y of this thread's fragment
  Float2 scales_x[c.row_blocks()];
  float scales_y[kHeld];

  SG_DEVICE static u32 block(u32 r) { return r / (c.tile_y / 2); }
  SG_DEVICE u32 row_x(u32 r) const { return x0 + block(r) * kMmaRows + (r / 2 % 2) * 8; }
  SG_DEVICE u32 row_y(u32 r) const { return y0 + r % (c.tile_y / 2) / 4 * 8 + r % 2; }

  // Loads the scales before the main loop, so that their latency is hidden by it.
  SG_DEVICE SplitEpilogue(const SgTmaGemm& gemm, const Consumer<c>& me, u32 tile_x0, u32 tile_y0, u32 rank)
      : p(gemm), sides(gemm) {
    first = rank * Plan::kEach, x0 = tile_x0 + me.row(0), y0 = tile_y0 + me.column();
    float factor = p.epilogue.alpha;
    if (p.global_a != nullptr)
      factor *= *p.global_a;
    if (p.global_b != nullptr)
      factor *= *p.global_b;
#pragma unroll
    for (u32 b = 0; b < c.row_blocks(); ++b)
      scales_x[b] = {factor * scale_of<c.scale_x()>(sides.scale_x, x0 + b * kMmaRows, sides.rows_x),
                     factor * scale_of<c.scale_x()>(sides.scale_x, x0 + b * kMmaRows + 8, sides.rows_x)};
    if constexpr (!c.fused) {
#pragma unroll
      for (u32 i = 0; i < Plan::kEach; ++i)
        scales_y[i] = scale_of<c.scale_y()>(sides.scale_y, row_y(first + i), sides.rows_y);
    }
  }
  template <Scale kScale>
  SG_DEVICE static float scale_of(const SgTmaScale& view, u32 row, u32 rows) {
    if constexpr (kScale == Scale::kTensor)
      return *view.data;
    if constexpr (kScale == Scale::kRow)
      return row < rows ? view.data[static_cast<u64>(row) * view.stride_row] : 0.0f;
    return 1.0f;
  }
  SG_DEVICE bool exists(u32 r) const {
    return r < Plan::kRegisters && row_x(r) < sides.rows_x && row_y(r) < sides.rows_y;
  }
  SG_DEVICE float scaled(u32 r, float sum, float scale_y) const {
    const Float2 s = c.row_blocks() == 1 || block(r) == 0 ? scales_x[0] : scales_x[c.row_blocks() - 1];
    return sum * (r / 2 % 2 ? s.y : s.x) * scale_y;
  }
  SG_DEVICE u8* place(u32 r) const {
    const u32 m = c.swap_ab ? row_y(r) : row_x(r), n = c.swap_ab ? row_x(r) : row_y(r);
    return static_cast<u8*>(p.d.data) + (m * p.d.stride + n) * bytes_of(c.d);
  }

  SG_DEVICE void store(u32 i, Sum sum) const {
    const u32 r = first + i;
    if (!exists(r))
      return;
    if constexpr (c.d == Type::kInt32)
      store_code(place(r), static_cast<u32>(sum), 4);
    else
      store_code(place(r), code_of<c.d>(scaled(r, sum, scales_y[i])), bytes_of(c.d));
  }

  // Fused: sums come from shared memory, so that the loop over them need not be unrolled; the loads of
  // kAhead elements are in flight together.
  template <class ReadSum>
  SG_DEVICE void finish(const ReadSum& read_sum) const {
    constexpr u32 kAhead = 4;
    const Finish f = finish_of(p.epilogue);
#pragma unroll 1
    for (u32 i = 0; i < Plan::kEach; i += kAhead) {
      float v[kAhead], term[kAhead];
#pragma unroll
      for (u32 t = 0; t < kAhead; ++t) {
        const u32 r = first + i + t;
        v[t] = term[t] = 0;
        if (i + t >= Plan::kEach || !exists(r))
          continue;
        const u32 m = c.swap_ab ? row_y(r) : row_x(r), n = c.swap_ab ? row_x(r) : row_y(r);
        v[t] = scaled(r, read_sum(r), scale_of<c.scale_y()>(sides.scale_y, row_y(r), sides.rows_y));
        if (f.c != nullptr)
          v[t] = __fmaf_rn(f.beta, load_number(f.c, m * f.c_stride_m + n * f.c_stride_n, f.c_dtype), v[t]);
        if (f.bias != nullptr)
          term[t] = load_number(f.bias, n, f.bias_dtype);
      }
#pragma unroll
      for (u32 t = 0; t < kAhead; ++t) {
        const u32 r = first + i + t;
        if (i + t < Plan::kEach && exists(r))
          store_code(place(r), code_of<c.d>(f.shape(f.bias != nullptr ? __fadd_rn(v[t], term[t]) : v[t])),
                     bytes_of(c.d));
      }
    }
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
  for (u32 r = 0; r < SplitPlan<c>::kRegisters; ++r) {
    const auto sum = me.acc[r / (c.tile_y / 2)][r % (c.tile_y / 2)];
    store_shared(partial_address<c>(shared, r, threadIdx.x),
                 c.d == Type::kInt32 ? __int_as_float(static_cast<i32>(sum)) : static_cast<float>(sum));
  }
}

template <GemmConfig c>
SG_DEVICE typename SplitSum<c.d>::Type sum_partials(u32 shared, u32 r) {
  float part[c.split_k];
  typename SplitSum<c.d>::Type sum = 0;
#pragma unroll
  for (u32 s = 0; s < c.split_k; ++s)
    part[s] = c.split_k == 1 ? load_shared(partial_address<c>(shared, r, threadIdx.x))
                             : load_shared_remote(partial_address<c>(shared, r, threadIdx.x), s);
#pragma unroll
  for (u32 s = 0; s < c.split_k; ++s) {
    if constexpr (c.d == Type::kInt32)
      sum += __float_as_int(part[s]);
    else
      sum += part[s];
  }
  return sum;
}

template <GemmConfig c>
SG_DEVICE void run_split_loader(const TensorMap* map_a, const TensorMap* map_b, const SgTmaGemm& p,
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
SG_DEVICE void scaled_gemm_splitk_sm90(const TensorMap* map_a, const TensorMap* map_b, const SgTmaGemm& p) {
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
  wait_for_earlier();
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
  if constexpr (!Plan::kPublished) {
#pragma unroll
    for (u32 r = 0; r < Plan::kRegisters; ++r)
      epilogue.store(
          r, static_cast<typename SplitEpilogue<c>::Sum>(me.acc[r / (c.tile_y / 2)][r % (c.tile_y / 2)]));
    return;
  }
  publish_partials(me, shared);
  if constexpr (c.split_k > 1) {
    cluster_arrive();
    cluster_wait();  // partner: every rank's arrival after its partials are written
  }
  if constexpr (c.fused) {
    epilogue.finish([&](u32 r) { return sum_partials<c>(shared, r); });
  } else {
#pragma unroll
    for (u32 i = 0; i < Plan::kEach; ++i)
      if (epilogue.first + i < Plan::kRegisters)
        epilogue.store(i, sum_partials<c>(shared, epilogue.first + i));
  }
  if constexpr (c.split_k > 1) {
    cluster_arrive();
    cluster_wait();  // partner: every rank's arrival after it has read its peers; only then may shared memory
                     // go away
  }
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_SPLITK_SM90(symbol, config)                                                        \
  extern "C" {                                                                                              \
  __constant__ SgCudaInfo symbol##_info =                                                                   \
      scalegemm::cuda::tma_info<config>(SG_CUDA_TMA_SPLIT_K, scalegemm::cuda::SplitPlan<config>::kThreads,  \
                                        scalegemm::cuda::SplitPlan<config>::kBytes);                        \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(scalegemm::cuda::SplitPlan<config>::kThreads) symbol(        \
      const __grid_constant__ scalegemm::cuda::TensorMap map_a,                                             \
      const __grid_constant__ scalegemm::cuda::TensorMap map_b,                                             \
      const __grid_constant__ scalegemm::cuda::TensorMap map_d, const __grid_constant__ SgTmaGemm params) { \
    scalegemm::cuda::scaled_gemm_splitk_sm90<config>(&map_a, &map_b, params);                               \
  }
