// GEMM of every problem on sm_80 and later: any types, layouts, strides, scale grids, outputs and epilogues.
// What the compiler must know is the operand types, the type they are multiplied in (`via`, exact for every
// code) and the tile; the rest of SgGemm is read at run time.
//
//          tile_n columns          a CTA: warps_m x warps_n warps, each a part of the tile, times
//         +---+---+---+---+        warps_k, which share K: few rows of D, long K
//  tile_m | w | w | w | w |        stage: warps_k slabs of 128 bytes of K (mma_load.cuh)
//         +---+---+---+---+
//         | w | w | w | w |        loop: wait, one barrier; start the copies of tile t + stages - 1 and the
//         +---+---+---+---+        loads of tile t + 1; multiply tile t; decode tile t + 1 into its stage
//
// Segments. t sums in the tensor core what shares its scales, at most 128 of K (int8: 16,384, exact in
// int32); then acc = fma(t * scale_a[row], scale_b[column], acc), in f32. Two multiplications one after the
// other: the product of two scales may leave f32 where the result does not. Scales that span K, global
// factors and alpha are applied at the end.
//   regular     scale blocks are multiples of a step (16 of K; int8 32, f32 4; zero points: of a vector of
//               codes): a tile is `depth` of K; segments end between steps
//   irregular   any other block: a tile ends where a block ends, and is filled up with zeros
// The end: sums (of warps_k warps, in order) pass through shared memory, so that one small loop serves every
// output, stride and epilogue, and stores are coalesced along the side of D whose stride is 1.
//
// Budget, 128 x 128, 8 warps: 64 + 64 sums a thread, 16 to 32 registers of codes in flight; stage 32 KB and
// 4 KB of block scales; cycles a stage of 64 of K: 512 mma of 8 cycles on 4 units, 1,024; one CTA a
// multiprocessor, 255 registers. 64 x 64, 4 warps: 32 + 32 sums. 16 x 32, 8 warps along K: 512 of K a stage,
// for few rows.
// Limits: M, N, K < 2^31; M <= 65,535 tile_m; batch <= 65,535; int32 output: int8 by int8 via int8, no
// scales. Deterministic; a row of D does not depend on M.
#pragma once
#include "cuda/mma_tile.cuh"

namespace scalegemm::cuda {

template <MmaConfig c>
struct MmaPlan {
  static constexpr u32 kThreads = c.threads(), kSlots = c.depth() / c.step();
  // A stage.
  static constexpr u32 kA = c.tile_m * 128 * c.warps_k, kB = c.tile_n * 128 * c.warps_k;
  static constexpr u32 kScalesA = 4 * kSlots * c.tile_m, kScalesB = 4 * kSlots * c.tile_n;
  static constexpr u32 kStage = kA + kB + kScalesA + kScalesB;
  // The end reuses the stages: kPitch floats a row, one tile for each warp along K.
  static constexpr u32 kPitch = c.tile_n + 4;
  static constexpr u32 kSums = 4 * c.warps_k * c.tile_m * kPitch;
  static constexpr u32 kFactors = max_of(c.stages * kStage, align_up(kSums, 128));
  static constexpr u32 kBytes = kFactors + 4 * (c.tile_m + c.tile_n);
  static constexpr u32 kPromote = c.via == Via::kInt8 ? 16384 : 128;
  using LoaderA = TileLoader<c.a, c.via, c.tile_m, c.depth(), kThreads>;
  using LoaderB = TileLoader<c.b, c.via, c.tile_n, c.depth(), kThreads>;
  using ScalesA = ScaleLoader<c.tile_m, kSlots, kThreads>;
  using ScalesB = ScaleLoader<c.tile_n, kSlots, kThreads>;
  static_assert(kStage % 128 == 0 && kA % 128 == 0, "tiles are aligned");
};

// How K is cut.
struct KWalk {
  u32 k, block_a, block_b;  // K of the problem, and of a block (at most K)
  bool regular;             // see above

  template <MmaConfig c>
  SG_DEVICE static KWalk of(const SgGemm& g) {
    KWalk w;
    w.k = static_cast<u32>(g.k);
    w.block_a = block_of(g.a, w.k), w.block_b = block_of(g.b, w.k);
    const u32 step_a = granule<c.a>(g.a, c.step()), step_b = granule<c.b>(g.b, c.step());
    w.regular = fits(w.block_a, step_a, w.k) && fits(w.block_b, step_b, w.k);
    return w;
  }
  SG_DEVICE static u32 block_of(const SgOperand& o, u32 k) {
    const i64 block = o.scale.data != nullptr ? o.scale.block_k : o.zero.data != nullptr ? o.zero.block_k : k;
    return block < k ? static_cast<u32>(block) : k;
  }
  template <SgDType kType>
  SG_DEVICE static u32 granule(const SgOperand& o, u32 step) {
    return o.zero.data != nullptr ? max_of(step, 128 / bits_of(kType)) : step;
  }
  SG_DEVICE static bool fits(u32 block, u32 granule, u32 k) { return block == k || block % granule == 0; }

  // The tile that begins at `from`.
  SG_DEVICE KRange tile(u32 from, u32 depth) const {
    u32 to = min_of(k - from, depth) + from;
    if (!regular)
      to = min_of(to, min_of((from / block_a + 1) * block_a, (from / block_b + 1) * block_b));
    return {from, to};
  }
};

// Sums of a CTA's tile over all of K.
template <MmaConfig c>
struct MmaSums {
  using Plan = MmaPlan<c>;
  using Tile = typename TileOf<c, c.via == Via::kF32>::Type;
  using Sum = typename Tile::Sum;
  static constexpr u32 kI = Tile::kI, kJ = Tile::kJ;

  Tile tile;
  KWalk walk;
  bool blocked_a, blocked_b;
  bool integer;  // D is int32: nothing is promoted
  float acc[kI][kJ];

  SG_DEVICE MmaSums(const KWalk& k_walk, bool scales_a, bool scales_b, bool integer_output)
      : walk(k_walk), blocked_a(scales_a), blocked_b(scales_b), integer(integer_output) {
#pragma unroll
    for (u32 i = 0; i < kI; ++i)
#pragma unroll
      for (u32 j = 0; j < kJ; ++j)
        acc[i][j] = 0, tile.t[i][j] = 0;
  }

  // This warp's slab of a stage, segment by segment.
  SG_DEVICE void add(u32 stage, KRange at) {
    u32 k = at.from + tile.slab * c.slab_depth(), step = 0;
    if (k >= at.to)
      return;
    const u32 to = min_of(at.to, k + c.slab_depth());
    u32 slot_a = blocked_a ? k / walk.block_a : 0, slot_b = blocked_b ? k / walk.block_b : 0;
    u32 end_a = (slot_a + 1) * walk.block_a, end_b = (slot_b + 1) * walk.block_b;
    slot_a -= blocked_a ? at.from / walk.block_a : 0, slot_b -= blocked_b ? at.from / walk.block_b : 0;
#pragma unroll 1
    while (k < to) {
      const u32 end = min_of(to, min_of(end_a, end_b)), count = ceil_div(end - k, c.step());
      tile.multiply(stage, stage + Plan::kA, step, count);
      step += count, k += count * c.step();
      const bool ends = c.warps_k > 1 || !walk.regular || k >= walk.k || k % Plan::kPromote == 0 ||
                        k >= end_a || k >= end_b;
      if (!integer && ends)
        promote(stage, slot_a, slot_b);
      if (k >= end_a)
        ++slot_a, end_a += walk.block_a;
      if (k >= end_b)
        ++slot_b, end_b += walk.block_b;
    }
  }

 private:
  SG_DEVICE void promote(u32 stage, u32 slot_a, u32 slot_b) {
    if (!blocked_a && !blocked_b) {
#pragma unroll
      for (u32 i = 0; i < kI; ++i)
#pragma unroll
        for (u32 j = 0; j < kJ; ++j)
          acc[i][j] += static_cast<float>(tile.t[i][j]), tile.t[i][j] = 0;
      return;
    }
    const u32 scales_a = stage + Plan::kA + Plan::kB + 4 * slot_a * c.tile_m;
    const u32 scales_b = stage + Plan::kA + Plan::kB + Plan::kScalesA + 4 * slot_b * c.tile_n;
    float b[kJ];
#pragma unroll
    for (u32 j = 0; j < kJ; ++j)
      b[j] = blocked_b ? load_shared(scales_b + 4 * tile.column(j)) : 1.0f;
#pragma unroll
    for (u32 i = 0; i < kI; ++i) {
      const float a = blocked_a ? load_shared(scales_a + 4 * tile.row(i)) : 1.0f;
#pragma unroll
      for (u32 j = 0; j < kJ; ++j) {
        acc[i][j] = __fmaf_rn(__fmul_rn(static_cast<float>(tile.t[i][j]), a), b[j], acc[i][j]);
        tile.t[i][j] = 0;
      }
    }
  }
};

// The end of a tile: four neighbouring columns a thread and turn.
template <MmaConfig c>
struct MmaOutput {
  using Plan = MmaPlan<c>;
  const SgGemm& g;
  u32 shared, m0, n0, batch;
  u8* d;
  bool integer, along_m, vectors, plain;
  u32 bytes;  // of an element of D

  SG_DEVICE MmaOutput(const SgGemm& gemm, u32 shared_base, u32 row0, u32 column0, bool integer_sums)
      : g(gemm), shared(shared_base), m0(row0), n0(column0), batch(blockIdx.z), integer(integer_sums) {
    bytes = storage_bytes(g.d_dtype);
    d = static_cast<u8*>(g.d) + static_cast<i64>(batch) * g.d_stride_batch * bytes;
    along_m = g.d_stride_m == 1 && g.d_stride_n != 1;
    vectors = g.d_stride_n == 1 &&
              (reinterpret_cast<u64>(d) | static_cast<u64>(g.d_stride_m * bytes)) % (4 * bytes) == 0;
    plain = Finish::of(g, batch).is_plain();
  }

  // Scales that span K, one a row and one a column of the tile, to shared memory.
  SG_DEVICE void load_factors() const {
    for (u32 i = threadIdx.x; i < c.tile_m + c.tile_n; i += Plan::kThreads) {
      const bool of_a = i < c.tile_m;
      const SgScale& s = of_a ? g.a.scale : g.b.scale;
      const u32 row = of_a ? m0 + i : n0 + i - c.tile_m;
      const bool exists = row < static_cast<u32>(of_a ? g.m : g.n);
      float v = 1.0f;
      if (s.data != nullptr && s.block_k >= g.k && exists)
        v = load_number(s.data,
                        static_cast<i64>(batch) * s.stride_batch +
                            static_cast<i64>(row / static_cast<u32>(s.block_r)) * s.stride_r,
                        s.dtype);
      store_shared(shared + Plan::kFactors + 4 * i, v);
    }
  }

  template <class Sums>
  SG_DEVICE void publish(const Sums& sums) const {
    const u32 tile = shared + 4 * sums.tile.slab * c.tile_m * Plan::kPitch;
#pragma unroll
    for (u32 i = 0; i < Sums::kI; ++i)
#pragma unroll
      for (u32 j = 0; j < Sums::kJ; ++j) {
        const u32 to = tile + 4 * (sums.tile.row(i) * Plan::kPitch + sums.tile.column(j));
        if constexpr (c.via == Via::kInt8)
          store_shared(to, integer ? __int_as_float(sums.tile.t[i][j]) : sums.acc[i][j]);
        else
          store_shared(to, sums.acc[i][j]);
      }
  }

  SG_DEVICE void store_all() const {
    constexpr u32 kQuads = c.tile_n / 4;
    const float global_a = g.a.global_scale != nullptr ? *g.a.global_scale : 1.0f;
    const float global_b = g.b.global_scale != nullptr ? *g.b.global_scale : 1.0f;
    const u32 rows = static_cast<u32>(g.m), columns = static_cast<u32>(g.n);
#pragma unroll 1
    for (u32 q = threadIdx.x; q < c.tile_m * kQuads; q += Plan::kThreads) {
      const u32 row = along_m ? q % c.tile_m : q / kQuads;
      const u32 column = (along_m ? q / c.tile_m : q % kQuads) * 4;
      if (m0 + row >= rows || n0 + column >= columns)
        continue;
      u32 code[4];
      results(code, row, column, min_of(columns - (n0 + column), 4), {global_a, global_b});
      store_quad(code, m0 + row, n0 + column, min_of(columns - (n0 + column), 4));
    }
  }

 private:
  SG_DEVICE void results(u32 (&code)[4], u32 row, u32 column, u32 count, Float2 globals) const {
    constexpr float kFactor = via_factor(c.a, c.via) * via_factor(c.b, c.via);
    read_sums(code, row, column);
    if (integer)
      return;
    const float scale_a = load_shared(shared + Plan::kFactors + 4 * row);
    float v[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      v[i] = __fmul_rn(__uint_as_float(code[i]) * kFactor, scale_a);
      v[i] = __fmul_rn(v[i], load_shared(shared + Plan::kFactors + 4 * (c.tile_m + column + i)));
      v[i] = __fmul_rn(__fmul_rn(v[i], globals.x), globals.y);
      if (plain)
        v[i] = __fmul_rn(v[i], g.alpha);
      else if (i < count)
        v[i] = finish_element(g, batch, v[i], m0 + row, n0 + column + i);
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      code[i] = g.d_dtype == SG_BF16  ? pack_bf16(v[i], 0.0f) & 0xffff
                : g.d_dtype == SG_F32 ? __float_as_uint(v[i])
                                      : encode_element(v[i], g.d_dtype);
  }
  // The sums of four columns over the warps that shared K, in their order.
  SG_DEVICE void read_sums(u32 (&sum)[4], u32 row, u32 column) const {
#pragma unroll
    for (u32 w = 0; w < c.warps_k; ++w) {
      const U32x4 v = load_shared_16(shared + 4 * ((w * c.tile_m + row) * Plan::kPitch + column));
      const u32 part[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (u32 i = 0; i < 4; ++i)
        sum[i] = w == 0    ? part[i]
                 : integer ? sum[i] + part[i]
                           : __float_as_uint(__fadd_rn(__uint_as_float(sum[i]), __uint_as_float(part[i])));
    }
  }
  SG_DEVICE void store_quad(const u32 (&code)[4], u32 m, u32 n, u32 count) const {
    u8* to = d + (m * g.d_stride_m + n * g.d_stride_n) * static_cast<i64>(bytes);
    if (vectors && count == 4) {
      if (bytes == 4)
        store_global_16(to, {code[0], code[1], code[2], code[3]});
      else if (bytes == 2)
        *reinterpret_cast<u64*>(to) =
            code[0] | code[1] << 16 | static_cast<u64>(code[2] | code[3] << 16) << 32;
      else
        *reinterpret_cast<u32*>(to) = code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24;
      return;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      if (i < count)
        store_code(to + i * g.d_stride_n * static_cast<i64>(bytes), code[i], bytes);
  }
};

// Tile of this CTA: strips of eight rows of tiles are walked along N, so that CTAs at work together share
// operands in L2.
struct TilePlace {
  u32 m, n;
  SG_DEVICE TilePlace() {
    constexpr u32 kStrip = 8;
    const u64 linear = static_cast<u64>(blockIdx.y) * gridDim.x + blockIdx.x;
    const u32 strip = blockIdx.y / kStrip, height = min_of(gridDim.y - strip * kStrip, kStrip);
    const u32 rest = static_cast<u32>(linear - static_cast<u64>(strip) * kStrip * gridDim.x);
    m = strip * kStrip + rest % height, n = rest / height;
  }
};

// The main loop. Each barrier's two sides: tile t is in its stage (stores before the barrier, copies waited
// for), and the stage of tile t - 1, filled next, has been read.
template <MmaConfig c>
SG_DEVICE void sum_tile(const SgGemm& g, u32 shared, u32 m0, u32 n0, u32 batch, MmaSums<c>& sums) {
  using Plan = MmaPlan<c>;
  const KWalk& walk = sums.walk;
  const u32 rows = static_cast<u32>(g.m), columns = static_cast<u32>(g.n);
  typename Plan::LoaderA load_a(g.a, m0, rows, walk.k, batch, walk.regular);
  typename Plan::LoaderB load_b(g.b, n0, columns, walk.k, batch, walk.regular);
  typename Plan::ScalesA scales_a(g.a.scale, m0, rows, walk.k, batch);
  typename Plan::ScalesB scales_b(g.b.scale, n0, columns, walk.k, batch);

  sums.tile.place(load_a.transposed, load_b.transposed);

  // Copies run on a regular grid only.
  auto copy = [&](u32 stage, u32 from) {
    if (from < walk.k) {
      const KRange at = walk.tile(from, c.depth());
      const u32 to = shared + stage * Plan::kStage;
      if (load_a.kNative && load_a.direct)
        load_a.copy(to, at);
      if (load_b.kNative && load_b.direct)
        load_b.copy(to + Plan::kA, at);
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (u32 s = 0; s + 1 < c.stages; ++s)
    copy(s, s * c.depth());

  KRange at = {0, 0}, next = walk.tile(0, c.depth());
  u32 stage = c.stages - 1, ahead = 0;  // of `at` and of `next`
#pragma unroll 1
  for (bool first = true; at.from < walk.k; first = false) {
    if (!first) {
      cp_async_wait<c.stages - 2>();
      __syncthreads();
      copy(stage == 0 ? c.stages - 1 : stage - 1, at.from + (c.stages - 1) * c.depth());
    }
    const bool more = next.from < walk.k;
    if (more) {
      if (!(load_a.kNative && load_a.direct))
        load_a.fetch(next);
      if (!(load_b.kNative && load_b.direct))
        load_b.fetch(next);
      scales_a.fetch(next), scales_b.fetch(next);
    }
    if (!first)
      sums.add(shared + stage * Plan::kStage, at);
    if (more) {
      const u32 to = shared + ahead * Plan::kStage;
      if (!(load_a.kNative && load_a.direct))
        load_a.store(to, next);
      if (!(load_b.kNative && load_b.direct))
        load_b.store(to + Plan::kA, next);
      scales_a.store(to + Plan::kA + Plan::kB);
      scales_b.store(to + Plan::kA + Plan::kB + Plan::kScalesA);
    }
    at = next;
    stage = ahead, ahead = ahead + 1 == c.stages ? 0 : ahead + 1;
    if (more)
      next = next.to < walk.k ? walk.tile(next.to, c.depth()) : KRange{walk.k, walk.k};
  }
}

template <MmaConfig c>
SG_DEVICE void mma_gemm(const SgGemm& g) {
  check_mma_config<c>();
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory), batch = blockIdx.z;
  const TilePlace place;
  const u32 m0 = place.m * c.tile_m, n0 = place.n * c.tile_n;
  const bool integer = c.via == Via::kInt8 && g.d_dtype == SG_INT32;
  const MmaOutput<c> output(g, shared, m0, n0, integer);
  output.load_factors();
  MmaSums<c> sums(KWalk::of<c>(g), g.a.scale.data != nullptr && g.a.scale.block_k < g.k,
                  g.b.scale.data != nullptr && g.b.scale.block_k < g.k, integer);
  sum_tile<c>(g, shared, m0, n0, batch, sums);
  cp_async_wait<0>();
  __syncthreads();  // every warp has read the last stage, which the sums overwrite
  output.publish(sums);
  __syncthreads();
  output.store_all();
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_MMA(symbol, config)                                                         \
  extern "C" {                                                                                       \
  __constant__ SgCudaInfo symbol##_info = {.abi_version = SG_CUDA_ABI_VERSION,                       \
                                           .family = SG_CUDA_MMA,                                    \
                                           .threads = config.threads(),                              \
                                           .shared_bytes = scalegemm::cuda::MmaPlan<config>::kBytes, \
                                           .tile_m = config.tile_m,                                  \
                                           .tile_n = config.tile_n,                                  \
                                           .cluster_m = 1,                                           \
                                           .cluster_n = 1,                                           \
                                           .cluster_k = 1,                                           \
                                           .box_m = 0,                                               \
                                           .box_n = 0,                                               \
                                           .promote_k = scalegemm::cuda::MmaPlan<config>::kPromote,  \
                                           .strided_scales = 1,                                      \
                                           .swap_ab = 0};                                            \
  }                                                                                                  \
  extern "C" __global__ void __launch_bounds__(config.threads(), config.ctas)                        \
      symbol(const __grid_constant__ SgGemm g) {                                                     \
    scalegemm::cuda::mma_gemm<config>(g);                                                            \
  }
