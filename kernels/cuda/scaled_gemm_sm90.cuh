// Block-scaled GEMM for sm_90a, persistent: D[m, n] = round(sum_k A[m, k] B[n, k] * scales), A and B
// K-contiguous, any M, N, K. One CTA an SM: 1 loading and 1 to 3 consumer warpgroups.
//
//        Y tile (tile_y rows of B)
//       +---------------------------+  loader, warp 0  TMA: X, Y tiles (128 bytes of K a stage), block scales
//   X 0 | consumer 0: 64, 128 rows  |  loader, warp 1  strided block scales by cp.async, where TMA cannot
//       +---------------------------+  consumers       wgmma, promotion, epilogue; no barrier between them
//   X 1 | consumer 1                |  pingpong        each consumer has a whole tile, in turn: one
//       +---------------------------+                  multiplies while the other stores
//
// Pipeline: `stages` stages, full/empty mbarriers (pipeline.cuh). Clusters of two share the Y (cluster_x) or
// X (cluster_y) tile: each CTA loads half and multicasts it to both.
//
// Budget, 128 x 176 pingpong (the fast workhorse): stage 38 KB x 5 = 190 KB, staging 16 KB, column scales
// 1.5 KB; 176 accumulators a thread of 232 registers. 256 x 128 promoted: 48 KB x 4, staging 32 KB, 128 + 64.
// Cycles a step at 4,096 e4m3 products a cycle: tile_x * tile_y / 32 an SM (704; 1,024). Measured on
// 4096 x 7168 x 16384, wave quantisation included: 95% of that rate for pingpong, 86% promoted with block
// scales; power then holds the clock near 1.5 GHz, so fewer cycles and less traffic both count. A 128 x 256
// tile takes 12,288 cycles of K = 1,536 and 2,700 to store (about 32 bytes a cycle): pingpong hides that.
// Promotion every 32 of K, for MX and 1 x 32 scales, costs a multiplication and an addition for each product
// of 32: the FMA pipes are the bound, at about 30% of the matrix rate; 128 x 128 is the largest tile that
// keeps the factors of four K blocks in registers.
// Outputs: f32, bf16, f16, e4m3, e5m2; int32 for the exact sums of int8. fused adds beta * C, bias,
// activation and clamp (staged_chunk.cuh). Limits: row strides of A and B are multiples of 16 bytes (TMA);
// raggedness in M, N and K is free (zero fill, masked stores).
#pragma once
#include "cuda/epilogue_sm90.cuh"

namespace scalegemm::cuda {

// Division by a number that stays: the estimate from its inverse is at most one too small.
struct Divisor {
  u32 value, inverse;
  SG_DEVICE explicit Divisor(u32 divisor) : value(divisor), inverse(0xffffffffu / divisor) {}
  SG_DEVICE u32 quotient(u32 n, u32& rest) const {
    u32 q = __umulhi(n, inverse);
    rest = n - q * value;
    if (rest >= value)
      rest -= value, ++q;
    return q;
  }
};

// The tiles of this CTA, in order. Units are clusters' worth of tiles; strips of `raster` units along X are
// walked along Y.
template <GemmConfig c>
struct TileWalk {
  u32 units_x, units_y, unit, step;
  Divisor strip, width, last_width;  // units in a strip; strips and the last one along X
  u32 x0, y0;                        // first row of X and of Y in the current tile

  SG_DEVICE TileWalk(const SgTmaGemm& p)
      : units_x(ceil_div(ceil_div(p.m, c.tile_x), c.cluster_x)),
        units_y(ceil_div(ceil_div(p.n, c.tile_y), c.cluster_y)),
        unit(blockIdx.x / c.cluster()),
        step(gridDim.x / c.cluster()),
        strip(p.raster * units_y),
        width(p.raster),
        last_width(units_x - (units_x - 1) / p.raster * p.raster) {}
  SG_DEVICE bool more() const { return unit < units_x * units_y; }
  SG_DEVICE bool next(u32 rank) {
    if (!more())
      return false;
    u32 within, x;
    const u32 first = strip.quotient(unit, within) * width.value;
    const u32 y = (units_x - first < width.value ? last_width : width).quotient(within, x);
    x0 = ((first + x) * c.cluster_x + (c.cluster_x > 1 ? rank : 0)) * c.tile_x;
    y0 = (y * c.cluster_y + (c.cluster_y > 1 ? rank : 0)) * c.tile_y;
    unit += step;
    return true;
  }
};

// What the host must know of a kernel.
template <GemmConfig c>
SG_CONSTEXPR SgCudaInfo tma_info(u32 family, u32 threads, u32 shared_bytes) {
  const u32 box_x = c.tile_x / c.cluster_y, box_y = c.tile_y / c.cluster_x;
  return {SG_CUDA_ABI_VERSION,
          family,
          threads,
          shared_bytes,
          c.swap_ab ? c.tile_y : c.tile_x,
          c.swap_ab ? c.tile_x : c.tile_y,
          c.swap_ab ? c.cluster_y : c.cluster_x,
          c.swap_ab ? c.cluster_x : c.cluster_y,
          c.split_k,
          c.swap_ab ? box_y : box_x,
          c.swap_ab ? box_x : box_y,
          c.promote_k,
          c.strided_scales,
          c.swap_ab,
          static_cast<u32>(c.scale_a),
          static_cast<u32>(c.scale_b)};
}

template <GemmConfig c>
SG_DEVICE void run_loader(const TensorMap* map_a, const TensorMap* map_b, const SgTmaGemm& p, Ring<c> ring,
                          u32 rank) {
  const u32 warp = warp_uniform(threadIdx.x / kWarp), lane = threadIdx.x % kWarp,
            steps = ceil_div(p.k, c.step_k());
  TileWalk<c> tiles(p);
  const ScaleJob job = {p.scale_a, p.scale_b, p.m, p.n, p.scale_blocks};
  if (warp == 0 && lane == 0) {
    while (tiles.next(rank))
      load_tiles<c>(ring, map_a, map_b, job, {tiles.x0, tiles.y0, 0, steps}, rank);
  } else if constexpr (c.strided_scales) {
    if (warp == 1)
      while (tiles.next(rank))
        copy_scales<c>(ring, job, {tiles.x0, tiles.y0, 0, steps}, lane);
  }
}

template <GemmConfig c>
SG_DEVICE void run_consumer(const TensorMap* map_d, const SgTmaGemm& p, Ring<c> ring, u32 shared, u32 rank) {
  const u32 steps = ceil_div(p.k, c.step_k());
  Consumer<c> me(warp_uniform(threadIdx.x / kWarpgroup) - 1, threadIdx.x % kWarpgroup);
  Epilogue<c> epilogue(p, map_d, shared, me);
  me.scale_blocks = p.scale_blocks;
  TileWalk<c> tiles(p);
  if (c.pingpong && me.group == 1 && tiles.next(rank))
    ring.skip(steps);
  for (bool first = me.group == 0; tiles.next(rank); first = false) {
    epilogue.begin(me, tiles.x0, tiles.y0);
    me.y_phase = tiles.y0 % 128;
    me.take_over(first, tiles.more());
    me.run(ring, steps);
    epilogue.finish(me, tiles.x0, tiles.y0);
    if (c.pingpong && tiles.next(rank))
      ring.skip(steps);  // the other consumer's tile
  }
  epilogue.drain(me);
}

template <GemmConfig c>
SG_DEVICE void scaled_gemm_sm90(const TensorMap* map_a, const TensorMap* map_b, const TensorMap* map_d,
                                const SgTmaGemm& p) {
  check_config<c>();
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory), rank = c.cluster() > 1 ? cluster_rank() : 0;
  Ring<c> ring(shared);
  if (threadIdx.x == 0) {
    tma_prefetch_map(map_a);
    tma_prefetch_map(map_b);
    ring.init_barriers();
  }
  if constexpr (c.cluster() > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  wait_for_earlier();
  if (warp_uniform(threadIdx.x / kWarpgroup) == 0) {
    if constexpr (c.consumers > 1)
      registers_shrink<c.loader_registers()>();
    run_loader<c>(map_a, map_b, p, ring, rank);
  } else {
    if constexpr (c.consumers > 1)
      registers_grow<c.consumer_registers()>();
    run_consumer<c>(map_d, p, ring, shared, rank);
  }
  if constexpr (c.cluster() > 1) {  // a CTA stays until its peers have sent and released everything
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_SM90(symbol, config)                                                               \
  extern "C" {                                                                                              \
  __constant__ SgCudaInfo symbol##_info = scalegemm::cuda::tma_info<config>(                                \
      SG_CUDA_TMA, config.threads(), scalegemm::cuda::Epilogue<config>::kEnd);                              \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(config.threads(), 1) symbol(                                 \
      const __grid_constant__ scalegemm::cuda::TensorMap map_a,                                             \
      const __grid_constant__ scalegemm::cuda::TensorMap map_b,                                             \
      const __grid_constant__ scalegemm::cuda::TensorMap map_d, const __grid_constant__ SgTmaGemm params) { \
    scalegemm::cuda::scaled_gemm_sm90<config>(&map_a, &map_b, &map_d, params);                              \
  }
