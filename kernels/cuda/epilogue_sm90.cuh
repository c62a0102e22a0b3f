// From accumulators to D, row-major: d[r, c] = round(acc * scale_x[r] * scale_y[c]), alpha and the global
// factors folded into scale_x[r] once a tile; fused: then beta * C, bias, activation, clamp.
//
// Each warp owns 16 rows x tile_y columns, so nothing here waits for another warp except for the column
// scales. 16-bit outputs pass through one or two 2 KB buffers a warp (16 rows x 64 columns, 16-byte units
// XORed with the row: TMA's 128-byte swizzle, free of bank conflicts) and leave by TMA, so the warp goes on
// while they drain; a chunk narrower than 64 columns, and an output that TMA cannot address (row stride not a
// multiple of 16 bytes), is read back and stored by the lanes. 32-bit outputs leave from registers as full
// 32-byte sectors. 8-bit outputs and fused epilogues: staged_chunk.cuh, 2 or 4 KB a warp, no map of D. The
// row scales are loaded when the tile starts, the column scales are copied to shared memory then: both are
// there long before the last multiplication.
#pragma once
#include "cuda/mainloop_sm90.cuh"
#include "cuda/staged_chunk.cuh"

namespace scalegemm::cuda {

template <GemmConfig c>
struct Epilogue {
  static constexpr bool kStaged = c.fused || bytes_of(c.d) == 1;  // by StagedChunk
  static constexpr u32 kColumnBytes =
      c.scale_y() == Scale::kRow ? align_up(4 * c.tile_y, 128) : 0;     // a warpgroup
  static constexpr u32 kStart = align_up(StageLayout<c>::kFree, 1024);  // in shared memory
  // Bytes of one of a warp's buffers: 16 rows of 16-byte units, each 8 columns (staged: of f32, two units).
  SG_CONSTEXPR static u32 buffer_bytes(u32 units) {
    return kStaged ? 16 * 32 * units : bytes_of(c.d) == 2 ? 16 * 16 * units : 0;
  }
  SG_CONSTEXPR static u32 end_with(u32 buffers, u32 units) {
    return kStart + c.consumers * (4 * buffers * buffer_bytes(units) + kColumnBytes);
  }
  static constexpr u32 kUnits = kStaged && end_with(1, 8) > kSharedLimit ? 4 : 8;
  static constexpr u32 kBufferBytes = buffer_bytes(kUnits);
  static constexpr u32 kRowChunks = ceil_div(c.tile_y / 8, kUnits), kChunks = c.row_blocks() * kRowChunks;
  // All of a tile's chunks if they fit: then they leave together.
  static constexpr u32 kBuffers = kStaged                                     ? 1
                                  : end_with(kChunks, kUnits) <= kSharedLimit ? kChunks
                                  : end_with(2, kUnits) <= kSharedLimit       ? 2
                                                                              : 1;
  static constexpr u32 kTogether = kBuffers == kChunks ? kChunks : 1;
  static constexpr u32 kEnd = end_with(kBuffers, kUnits);
  static_assert(kEnd <= kSharedLimit, "shared memory of one SM");

  const SgTmaGemm& p;
  const SgTmaOutput& out;
  const TensorMap* map_d;
  const SgTmaScale &scale_x, &scale_y;
  u32 staging, columns;  // this warp's and this warpgroup's shared memory
  u32 buffer = 0;        // staging buffer to fill next
  Float2 rows[c.row_blocks()];

  SG_DEVICE Epilogue(const SgTmaGemm& gemm, const TensorMap* output_map, u32 shared, const Consumer<c>& me)
      : p(gemm), out(gemm.d), map_d(output_map), scale_x(gemm.scale_a), scale_y(gemm.scale_b) {
    staging = shared + kStart + (me.group * 4 + me.warp) * kBuffers * kBufferBytes;
    columns = shared + kStart + c.consumers * 4 * kBuffers * kBufferBytes + me.group * kColumnBytes;
  }

  // Starts the loads of this tile's scales. The warpgroup has left the previous tile's finish().
  SG_DEVICE void begin(const Consumer<c>& me, u32 x0, u32 y0) {
#pragma unroll
    for (u32 b = 0; b < c.row_blocks(); ++b)
      rows[b] = {row_scale(x0 + me.row(b)), row_scale(x0 + me.row(b) + 8)};
    float s = p.epilogue.alpha;
    if (p.global_a != nullptr)
      s *= *p.global_a;
    if (p.global_b != nullptr)
      s *= *p.global_b;
    if constexpr (c.scale_y() == Scale::kTensor)
      s *= *scale_y.data;
#pragma unroll
    for (u32 b = 0; b < c.row_blocks(); ++b)
      rows[b].x *= s, rows[b].y *= s;
    if constexpr (c.scale_y() == Scale::kRow) {
      sync(me);  // the last reads of `columns` are over
      for (u32 i = me.thread; i < c.tile_y; i += kWarpgroup) {
        const bool valid = y0 + i < out.columns;
        cp_async_4(columns + 4 * i,
                   scale_y.data + (valid ? static_cast<u64>(y0 + i) * scale_y.stride_row : 0), valid);
      }
    }
  }

  SG_DEVICE void finish(const Consumer<c>& me, u32 x0, u32 y0) {
    if constexpr (c.scale_y() == Scale::kRow) {
      cp_async_wait_all();
      sync(me);
    }
    if constexpr (kStaged) {
      store_staged(me, x0, y0);
      return;
    }
    if constexpr (bytes_of(c.d) == 2) {
#pragma unroll
      for (u32 first = 0; first < kChunks; first += kTogether)
        store_half(me, first, x0, y0);
    } else {
#pragma unroll
      for (u32 i = 0; i < kChunks; ++i)
        store_word(me, place(me, i, x0, y0));
    }
  }

  // Before the CTA ends: its shared memory is still being read.
  SG_DEVICE void drain(const Consumer<c>& me) const {
    if (me.lane() == 0)
      bulk_wait_read<0>();
  }

 private:
  SG_DEVICE void sync(const Consumer<c>& me) const {
    barrier_sync(1 + me.group, kWarpgroup);
  }

  SG_DEVICE float row_scale(u32 row) const {
    if constexpr (c.scale_x() == Scale::kTensor)
      return *scale_x.data;
    if constexpr (c.scale_x() == Scale::kRow)
      return row < out.rows ? scale_x.data[static_cast<u64>(row) * scale_x.stride_row] : 0.0f;
    return 1.0f;
  }

  // Chunk i of this warp's part of the tile.
  struct Place {
    u32 block, group, units;  // row block, first group of eight columns, how many
    u32 row0, column0;        // in D
  };
  SG_DEVICE Place place(const Consumer<c>& me, u32 i, u32 x0, u32 y0) const {
    const u32 block = i / kRowChunks, group = i % kRowChunks * kUnits;
    return {block, group, min_of(c.tile_y / 8 - group, kUnits),
            x0 + (me.index * c.row_blocks() + block) * kMmaRows + me.warp * 16, y0 + 8 * group};
  }
  // TMA stores whole 16-byte units, also past the last column.
  SG_DEVICE bool by_tma(const Place& at) const {
    return at.units == kUnits && out.vectors && (at.column0 + 64 <= out.columns || out.columns % 8 == 0);
  }

  // The results of up to eight groups of eight columns; v[u] = (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)
  // of group j + u.
  struct Chunk {
    float v[kUnits][4];
  };
  SG_DEVICE Chunk results(const Consumer<c>& me, const Place& at) const {
    constexpr bool kExact = c.d == Type::kInt32;
    Chunk r;
    Float2 s[kUnits];
#pragma unroll
    for (u32 u = 0; u < kUnits; ++u) {
      s[u] = {1.0f, 1.0f};
      if constexpr (c.scale_y() == Scale::kRow)
        if (u < at.units)
          s[u] = load_shared_2(columns + 4 * (8 * (at.group + u) + me.column()));
    }
#pragma unroll
    for (u32 u = 0; u < kUnits; ++u)
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        auto sum = me.acc[at.block][u < at.units ? 4 * (at.group + u) + i : 0];
        if constexpr (kStaged && c.a == Type::kInt8)  // or the compiler converts all sums before the loop
          asm volatile("" : "+r"(sum));
        if constexpr (kExact)
          r.v[u][i] = __int_as_float(static_cast<i32>(sum));
        else
          r.v[u][i] = static_cast<float>(sum) * (i < 2 ? rows[at.block].x : rows[at.block].y) *
                      (i % 2 ? s[u].y : s[u].x);
      }
    return r;
  }

  // Chunk by chunk in a loop that is not unrolled: only the copy from registers is written out for each.
  SG_DEVICE void store_staged(const Consumer<c>& me, u32 x0, u32 y0) {
    constexpr u32 kAhead = c.row_blocks() * c.tile_y > 320 ? 1 : 4;  // what the sums leave of the registers
#pragma unroll 1
    for (u32 i = 0; i < kChunks; ++i) {
#pragma unroll
      for (u32 k = 0; k < c.row_blocks(); ++k)  // new to the compiler, or it scales all sums before the loop
        asm volatile("" : "+f"(rows[k].x), "+f"(rows[k].y));
      const Place at = place(me, i, x0, y0);
      const StagedChunk<c.d, kUnits, c.fused, kAhead> chunk = {staging, me.lane(),  p,
                                                               at.row0, at.column0, at.units};
#pragma unroll
      for (u32 k = 0; k < kChunks; ++k) {
        if (k != i)
          continue;
        const Place same = place(me, k, x0, y0);  // as constants
        const Chunk r = results(me, same);
#pragma unroll
        for (u32 u = 0; u < kUnits; ++u)
          if (u < same.units)
            chunk.write(u, r.v[u]);
      }
      chunk.finish();
    }
  }

  SG_DEVICE static u32 pack(float low, float high) {
    return c.d == Type::kF16 ? pack_f16(low, high) : pack_bf16(low, high);
  }

  // kTogether chunks, through as many staging buffers.
  SG_DEVICE void store_half(const Consumer<c>& me, u32 first, u32 x0, u32 y0) {
    const u32 lane = me.lane();
    if (lane == 0)
      bulk_wait_read<kBuffers - kTogether>();
    __syncwarp();  // these buffers' earlier contents have been read
#pragma unroll
    for (u32 i = 0; i < kTogether; ++i)
      write_half(me, place(me, first + i, x0, y0), staging + (buffer + i) * kBufferBytes);
    fence_async_proxy();
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < kTogether; ++i) {
      const Place at = place(me, first + i, x0, y0);
      const u32 from = staging + (buffer + i) * kBufferBytes;
      if (!by_tma(at))
        copy_out(from, lane, at.units, at.row0, at.column0);
      else if (lane == 0)
        tma_store(map_d, from, at.column0, at.row0);
    }
    if (lane == 0)
      bulk_commit();
    __syncwarp();
    buffer = (buffer + kTogether) % kBuffers;
  }
  SG_DEVICE void write_half(const Consumer<c>& me, const Place& at, u32 to) const {
    const u32 row = me.lane() % 16, half = me.lane() / 16;
    const Chunk r = results(me, at);
#pragma unroll
    for (u32 u = 0; u < kUnits; u += 2)
      if (u < at.units)
        stmatrix_x4(to + row * 128 + (((u + half) ^ (row % 8)) * 16), pack(r.v[u][0], r.v[u][1]),
                    pack(r.v[u][2], r.v[u][3]), pack(r.v[u + 1][0], r.v[u + 1][1]),
                    pack(r.v[u + 1][2], r.v[u + 1][3]));
  }

  SG_DEVICE void copy_out(u32 from, u32 lane, u32 units, u32 row0, u32 column0) const {
    const u32 read_row = lane / kUnits, unit = lane % kUnits, column = column0 + 8 * unit;
    u16* d = static_cast<u16*>(out.data) + (static_cast<u64>(row0) + read_row) * out.stride + column;
#pragma unroll
    for (u32 r = 0; r < 16; r += 4, d += 4 * out.stride) {
      const U32x4 v = load_shared_16(from + (r + read_row) * 128 + ((unit ^ ((r + read_row) % 8)) * 16));
      if (row0 + r + read_row >= out.rows || unit >= units)
        continue;
      if (out.vectors && column + 8 <= out.columns)
        store_global_16(d, v);
      else
        store_elements(d, v, column);
    }
  }

  SG_DEVICE void store_elements(u16* d, U32x4 v, u32 column) const {
    const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
      if (column + i < out.columns)
        d[i] = static_cast<u16>(w[i / 2] >> (16 * (i % 2)));
  }

  SG_DEVICE void store_word(const Consumer<c>& me, const Place& at) {
    const Chunk r = results(me, at);
    const u32 row0 = at.row0 + me.lane() / 4, column0 = at.column0 + me.column();
    float* d = static_cast<float*>(out.data) + static_cast<u64>(row0) * out.stride + column0;
#pragma unroll
    for (u32 half = 0; half < 2; ++half, d += 8 * out.stride) {
      if (row0 + 8 * half >= out.rows)
        break;
#pragma unroll
      for (u32 u = 0; u < kUnits; ++u) {
        const u32 column = column0 + 8 * u;
        if (u >= at.units || column >= out.columns)
          break;
        const Float2 v = {r.v[u][2 * half], r.v[u][2 * half + 1]};
        if (out.vectors && column + 1 < out.columns) {
          *reinterpret_cast<Float2*>(d + 8 * u) = v;
        } else {
          d[8 * u] = v.x;
          if (column + 1 < out.columns)
            d[8 * u + 1] = v.y;
        }
      }
    }
  }
};

}  // namespace scalegemm::cuda
