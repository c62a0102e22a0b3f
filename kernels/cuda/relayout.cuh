// Copies operands and block scales into the form that TMA can address: lines contiguous, a multiple of 16
// bytes apart.
//
// A CTA moves a tile of 128 rows x 128 bytes of K. Where K is contiguous already, each thread moves 4 units
// of 16 bytes, by aligned words and a funnel shift where the source is not aligned. Else words along the rows
// are transposed in registers (4 x 4 bytes, 2 x 2 halves; f32 scales as they are) and pass through 16 KB of
// shared memory, XORed so that neither side has bank conflicts. Budget: every byte is read and written once,
// 16 KB in flight a CTA, 8 CTAs a multiprocessor: the memory's rate. Element by element (strides without a
// 1): a load instruction an element.
#pragma once
#include "cuda/ptx.cuh"
#include "cuda/relayout_abi.h"

namespace scalegemm::cuda {

struct alignas(16) RelayoutUnit {
  u32 w[4];
};

// 16 bytes at any address, of which `count` exist (the others are 0).
SG_DEVICE RelayoutUnit load_bytes(const u8* p, u32 count) {
  RelayoutUnit out = {{0, 0, 0, 0}};
  const u32 shift = static_cast<u32>(reinterpret_cast<u64>(p) % 4) * 8;
  if (count == 16 && shift == 0) {
    if (reinterpret_cast<u64>(p) % 16 == 0)
      return *reinterpret_cast<const RelayoutUnit*>(p);
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      out.w[i] = reinterpret_cast<const u32*>(p)[i];
  } else if (count == 16) {
    // The words around hold only bytes of words that hold wanted ones.
    const u32* words = reinterpret_cast<const u32*>(p - shift / 8);
    u32 low = words[0];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 high = words[i + 1];
      out.w[i] = __funnelshift_r(low, high, shift);
      low = high;
    }
  } else {
#pragma unroll
    for (u32 i = 0; i < 16; ++i)
      if (i < count)
        out.w[i / 4] |= static_cast<u32>(p[i]) << (i % 4 * 8);
  }
  return out;
}

SG_DEVICE void copy_rows(const SgRelayout& job, u32 row0, u32 byte0) {
  constexpr u32 kEach = SG_RELAYOUT_ROWS * SG_RELAYOUT_BYTES / 16 / SG_RELAYOUT_THREADS;
  const u32 unit = threadIdx.x % 8, bytes = job.k * job.element, at = byte0 + 16 * unit;
  const u32 count = at < bytes ? min_of(bytes - at, 16) : 0;
  RelayoutUnit units[kEach];
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    const u32 row = row0 + threadIdx.x / 8 + i * (SG_RELAYOUT_THREADS / 8);
    if (row < job.rows && count != 0)
      units[i] = load_bytes(
          static_cast<const u8*>(job.from) + row * job.stride_r * static_cast<i64>(job.element) + at, count);
  }
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    const u32 row = row0 + threadIdx.x / 8 + i * (SG_RELAYOUT_THREADS / 8);
    if (row < job.rows && at < job.pitch)
      *reinterpret_cast<RelayoutUnit*>(static_cast<u8*>(job.to) + row * job.pitch + at) =
          count != 0 ? units[i] : RelayoutUnit{{0, 0, 0, 0}};
  }
}

// Elements of kBytes; words of kPack elements along the rows.
template <u32 kBytes>
struct Transpose {
  static constexpr u32 kPack = 4 / kBytes;
  static constexpr u32 kRowWords = SG_RELAYOUT_ROWS / kPack;  // of one k
  static constexpr u32 kGroups = SG_RELAYOUT_BYTES / 4;       // of kPack neighbouring k

  // kPack elements of rows r .. at one k, those that do not exist as 0.
  SG_DEVICE static u32 load(const SgRelayout& job, u32 r, u32 k) {
    if (k >= job.k || r >= job.rows)
      return 0;
    const u8* p =
        static_cast<const u8*>(job.from) + (r * job.stride_r + k * job.stride_k) * static_cast<i64>(kBytes);
    if (job.stride_r == 1 && r + kPack <= job.rows && reinterpret_cast<u64>(p) % 4 == 0)
      return *reinterpret_cast<const u32*>(p);
    if constexpr (kBytes == 4)
      return *reinterpret_cast<const u32*>(p);
    u32 word = 0;
#pragma unroll
    for (u32 i = 0; i < kPack; ++i) {
      if (r + i < job.rows) {
        const u8* e = p + i * job.stride_r * static_cast<i64>(kBytes);
        word |= (kBytes == 1 ? *e : *reinterpret_cast<const u16*>(e)) << (8 * kBytes * i % 32);
      }
    }
    return word;
  }

  // in[i]: rows 0 .. of k i; out[j]: k 0 .. of row j.
  SG_DEVICE static void transpose(const u32 (&in)[kPack], u32 (&out)[kPack]) {
    if constexpr (kBytes == 4) {
      out[0] = in[0];
    } else if constexpr (kBytes == 2) {
      out[0] = __byte_perm(in[0], in[1], 0x5410);
      out[1] = __byte_perm(in[0], in[1], 0x7632);
    } else {
      const u32 a = __byte_perm(in[0], in[1], 0x5140), b = __byte_perm(in[2], in[3], 0x5140);
      const u32 c = __byte_perm(in[0], in[1], 0x7362), d = __byte_perm(in[2], in[3], 0x7362);
      out[0] = __byte_perm(a, b, 0x5410), out[1] = __byte_perm(a, b, 0x7632);
      out[2] = __byte_perm(c, d, 0x5410), out[3] = __byte_perm(c, d, 0x7632);
    }
  }

  SG_DEVICE static void run(const SgRelayout& job, u32 row0, u32 k0, u32 (*tile)[SG_RELAYOUT_BYTES / 4]) {
    constexpr u32 kItems = kRowWords * kGroups / SG_RELAYOUT_THREADS;
    u32 in[kItems][kPack];
#pragma unroll
    for (u32 i = 0; i < kItems; ++i) {
      const u32 item = threadIdx.x + i * SG_RELAYOUT_THREADS;
#pragma unroll
      for (u32 j = 0; j < kPack; ++j)
        in[i][j] = load(job, row0 + item % kRowWords * kPack, k0 + item / kRowWords * kPack + j);
    }
#pragma unroll
    for (u32 i = 0; i < kItems; ++i) {
      const u32 item = threadIdx.x + i * SG_RELAYOUT_THREADS, word = item % kRowWords;
      u32 out[kPack];
      transpose(in[i], out);
#pragma unroll
      for (u32 j = 0; j < kPack; ++j)
        tile[word * kPack + j][(item / kRowWords) ^ (word % kWarp)] = out[j];
    }
    __syncthreads();
    const u32 unit = threadIdx.x % 8, byte = k0 * kBytes + 16 * unit;
#pragma unroll
    for (u32 i = 0; i < SG_RELAYOUT_ROWS * 8 / SG_RELAYOUT_THREADS; ++i) {
      // Neighbours in a warp read rows of neighbouring words: the XOR keeps them in different banks.
      const u32 s = threadIdx.x / 8 + i * (SG_RELAYOUT_THREADS / 8);
      const u32 word = s % kRowWords, r = word * kPack + s / kRowWords;
      if (row0 + r >= job.rows || byte >= job.pitch)
        continue;
      RelayoutUnit v;
#pragma unroll
      for (u32 q = 0; q < 4; ++q)
        v.w[q] = tile[r][(4 * unit + q) ^ (word % kWarp)];
      *reinterpret_cast<RelayoutUnit*>(static_cast<u8*>(job.to) + (row0 + r) * job.pitch + byte) = v;
    }
  }
};

SG_DEVICE void relayout(const SgRelayoutJobs& jobs) {
  __shared__ u32 tile[SG_RELAYOUT_ROWS][SG_RELAYOUT_BYTES / 4];
#if __CUDA_ARCH__ >= 900
  wait_for_earlier();
#endif
  u32 i = 0, first = 0;
  while (blockIdx.x >= jobs.end[i])
    first = jobs.end[i++];
  const SgRelayout& job = jobs.jobs[i];
  const u32 t = blockIdx.x - first;
  const u32 row0 = t / job.tiles_k * SG_RELAYOUT_ROWS, byte0 = t % job.tiles_k * SG_RELAYOUT_BYTES;
  if (job.stride_k == 1)
    copy_rows(job, row0, byte0);
  else if (job.element == 1)
    Transpose<1>::run(job, row0, byte0, tile);
  else if (job.element == 2)
    Transpose<2>::run(job, row0, byte0 / 2, tile);
  else
    Transpose<4>::run(job, row0, byte0 / 4, tile);
}

}  // namespace scalegemm::cuda

#define SCALEGEMM_KERNEL_RELAYOUT(symbol)                           \
  extern "C" __global__ void __launch_bounds__(SG_RELAYOUT_THREADS) \
      symbol(const __grid_constant__ SgRelayoutJobs jobs) {         \
    scalegemm::cuda::relayout(jobs);                                \
  }
