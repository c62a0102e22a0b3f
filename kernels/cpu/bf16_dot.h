// The fused kernel of the bf16 dot family for M <= 16: codes become bf16 pairs in registers (bf16_pairs.h),
// meet all rows and are dropped, so that each weight byte is touched once.
//
//   k -->   panel 0  panel 1  ...  panel S-1      a panel is 16 columns, one vector of sums a row; S panels
//   row 0     sum      sum           sum          advance together, 64 bytes each a step, so that 8 and more
//   ...                                           chains hide the latency of 6
//
//   rows    1   2   3   4   6   8  12  16         others are padded with rows of zeros
//   S       8   8   4   4   2   2   1   1         rows * S <= 16 of 32 registers, and up to 7 of tables
//
// What decides the speed of one row is not decoding alone but how many streams are read at once and how far
// ahead: every step asks for the lines at its place in what is read a chunk of K later, into the second
// cache. On Zen 4 fp8 at N = K = 4096 runs at 86-93 % of the read bandwidth with 4 streams, with prefetches
// into the first cache at any distance (64 lines in flight are more than it can have: at 1 KB ahead 70 %), or
// with none; with 8 streams and the second cache at 95-105 %, from 2 KB ahead on. 4-bit weights with a scale
// per 32 end at 80 %: 9.8 cycles of work for 64 bytes (7.6 without scales) against 10 of memory, which
// overlap only in part. Tried without gain: prefetching every second or fourth line, scales a few lines
// ahead, results in registers. From two (4-bit) or four (8-bit) rows on the dot products themselves take
// longer than the memory: rows * 4 (2) cycles for 64 bytes, where one 512-bit VDPBF16PS issues a cycle.
//
// At the end of a segment of K (scales of A and B constant), x = sum * scale of A and result += x * scale of
// B. Zero points: up to four rows sum(a*code) - zero * sum(a), where sum(a) takes one more dot product with
// ones a pair; more rows take them off the codes.
#ifndef SCALEGEMM_KERNELS_CPU_BF16_DOT_H_
#define SCALEGEMM_KERNELS_CPU_BF16_DOT_H_

#include "cpu/bf16_weights.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

constexpr int kPairDotRows = 16;
constexpr int kMaxStreams = 8;

// Rows a kernel is compiled for: the next of 1, 2, 3, 4, 6, 8, 12, 16; the rows added are zero.
constexpr int64_t padded_rows(int64_t rows) {
  return rows <= 4 ? rows : rows <= 8 ? (rows + 1) / 2 * 2 : (rows + 3) / 4 * 4;
}

constexpr int dot_streams(int64_t rows) {
  return rows <= 2 ? 8 : rows <= 4 ? 4 : rows <= 8 ? 2 : 1;
}

// One chunk of K for up to kMaxStreams panels: sums[panel][row][16] continued over the segments.
template <int kType>
struct PairDotJob {
  const PairWeights<kType>* weights;
  PairPanel panels[kMaxStreams];
  // What all passes over the unit's panels read a chunk later: pass i of `passes` (a power of two) fetches
  // its part of each.
  const uint8_t* later[kMaxStreams];
  int pass, passes;
  float* sums;
  const uint32_t* a;       // [pair][rows]
  const float* row_scale;  // [block of A][rows]
  const Segment* segments;
  int count;
  int64_t steps;  // of the chunk
};

template <int kType, WeightMode kMode, int kRows, int kStreams>
struct PairSums {
  F sum[kStreams][kRows];
  F of_a[kRows];
  F shift[kStreams];
  // Many rows would need as many sums of A again: they take the zero points off the codes instead.
  static constexpr bool kShiftsCodes = kMode == kZeroed && kRows > 4;
  static constexpr bool kShiftsSums = kMode == kZeroed && !kShiftsCodes;

  SG_INLINE explicit PairSums(const PairDotJob<kType>& job, const Segment& at) {
#pragma GCC unroll 16
    for (int i = 0; i < kStreams * kRows; ++i) {
      sum[i / kRows][i % kRows] = zero();
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      of_a[r] = zero();
    }
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
      shift[i] = kMode == kZeroed ? job.weights->zero_point(job.panels[i], at.b_row) : zero();
    }
  }

  // One step of every panel.
  SG_INLINE void add(const PairDotJob<kType>& job, const PairLookup<kType>& table, int64_t step) {
    constexpr int kPairs = step_pairs(kType);
    const uint32_t* const a = job.a + step * kPairs * kRows;
    // With several passes every step fetches for one part of the streams, all of them in turn.
    const int64_t turn = step & (job.passes - 1);
    const int64_t ahead = (job.pass * job.steps + step) / job.passes * 64;
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(job.later[turn * kStreams + i] + ahead), _MM_HINT_T1);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
      I pairs[kPairs];
      code_pairs<kType>(table, job.panels[i].codes + step * 64, pairs);
#pragma GCC unroll 16
      for (int p = 0; p < kPairs; ++p) {
        const I b = kShiftsCodes ? shift_pairs(pairs[p], shift[i]) : pairs[p];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const I x = iset1(static_cast<int32_t>(a[p * kRows + r]));
          sum[i][r] = dot_pair(sum[i][r], x, b);
          if (kShiftsSums && i == 0) {
            of_a[r] = dot_pair(of_a[r], x, iset1(0x3f803f80));  // ones
          }
        }
      }
    }
  }

  // result += (sum - zero * sum(a)) * scale of A * scale of B.
  SG_INLINE void finish(const PairDotJob<kType>& job, const Segment& at) const {
    F scale[kStreams];
    if (kMode != kPlain) {
      job.weights->scales(job.panels, at.b_row, scale);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        float* const out = job.sums + (i * kRows + r) * kLanes;
        F x = kShiftsSums ? sub(sum[i][r], mul(shift[i], of_a[r])) : sum[i][r];
        // The scale of A first: a product of two extreme scales may not be an f32 although the result is.
        x = mul(x, set1(job.row_scale[at.a_block * kRows + r]));
        store(out, kMode == kPlain ? add_to(out, x) : fma(x, scale[i], load(out)));
      }
    }
  }

 private:
  static SG_INLINE F add_to(const float* out, F x) {
    return scalegemm_kernel::add(load(out), x);
  }
};

template <int kType, WeightMode kMode, int kRows, int kStreams>
inline void dot_pairs(const PairDotJob<kType>& job) {
  const PairLookup<kType> table;
  for (int i = 0; i < job.count; ++i) {
    const Segment& at = job.segments[i];
    PairSums<kType, kMode, kRows, kStreams> sums(job, at);
    const int64_t end = (at.pair + at.pairs) / step_pairs(kType);
    for (int64_t step = at.pair / step_pairs(kType); step < end; ++step) {
      sums.add(job, table, step);
    }
    sums.finish(job, at);
  }
}

// Run-time number of streams, at most kStreams and a power of two.
template <int kType, WeightMode kMode, int kRows, int kStreams = dot_streams(kRows)>
inline void run_dot_streams(int streams, const PairDotJob<kType>& job) {
  if constexpr (kStreams > 1) {
    if (streams < kStreams) {
      return run_dot_streams<kType, kMode, kRows, kStreams / 2>(streams, job);
    }
  }
  dot_pairs<kType, kMode, kRows, kStreams>(job);
}

template <int kType, WeightMode kMode>
inline void run_dot_pairs(int rows, int streams, const PairDotJob<kType>& job) {
  switch (rows) {
    case 1:
      return run_dot_streams<kType, kMode, 1>(streams, job);
    case 2:
      return run_dot_streams<kType, kMode, 2>(streams, job);
    case 3:
      return run_dot_streams<kType, kMode, 3>(streams, job);
    case 4:
      return run_dot_streams<kType, kMode, 4>(streams, job);
    case 6:
      return run_dot_streams<kType, kMode, 6>(streams, job);
    case 8:
      return run_dot_streams<kType, kMode, 8>(streams, job);
    case 12:
      return run_dot_streams<kType, kMode, 12>(streams, job);
    default:
      return run_dot_streams<kType, kMode, 16>(streams, job);
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_BF16_DOT_H_
