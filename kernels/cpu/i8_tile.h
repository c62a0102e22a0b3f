// The int8-dot micro-kernel: kRows rows of A against one panel of 16 columns, all of K.
//
//        16 columns
//      +---------+      one step (64 bytes of the panel): 1 or 2 dot groups
//   r0 |acc      |   <- a[group][r0][4 bytes], broadcast by the dot's memory operand
//   r1 |acc      |
//      +---------+
//        ^ b: 16 columns x 4 k, decoded in registers (0 to 5 ops a step, shared by all rows)
//
// For each segment of K: acc starts at the bias correction (one broadcast load, no arithmetic), dots, then
// sum += float(acc) * scale. AVX-512, 14 rows, two scales: 14 int32 + 14 f32 sums + 2 b + table + mask = 32
// registers, none spilled.
//
// Cycles of 14 x 16 x 32 k (4-bit weights, scales on both sides), Zen 4, where a 512-bit instruction holds a
// 256-bit pipe for two cycles: FP0/FP1 carry 112 dots + 14 multiplies + 14 FMAs = 140, FP2/FP3 the 14
// conversions, FP1/FP2 12 shuffles and shifts: at most 112 / 140 = 80 % of the dot rate (measured 72 %).
// Golden Cove: 112 + 42 + 20 on two ports: 64 %. Without block scales both are near 100 % (measured 96 %).
// Loads: 2 broadcasts a cycle are possible, 1 is needed.
//
// Rows: 1, 2, 4, or even up to kMaxRows. Up to 4 rows are bound by memory, not by dots: the panels of a unit
// lie one after the other and every byte is read once, with a prefetch that crosses panels and units.
// Two accumulators a row keep the 4-cycle chain of dots off the critical path.
//
// Limits: weights past N are the panel's padding: computed, never stored.
#ifndef SCALEGEMM_KERNELS_CPU_I8_TILE_H_
#define SCALEGEMM_KERNELS_CPU_I8_TILE_H_

#include "cpu/i8_plan.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// Panels are read front to back, so the next chunk is fetched into L2 while this one is used, and as four
// streams: more DRAM pages and more hardware prefetchers at work than one stream has. Measured on Zen 4 at
// M = 1, share of a four-stream read probe: none 59-62 %, one stream 4 KB ahead into L1 65 %, 8 KB ahead into
// L2 75-86 %, this 75-97 %; at M = 16 it gave 25-30 %. An address past the weights is only a hint.
constexpr uint64_t kPrefetchChunk = 32768;

SG_INLINE void i8_prefetch(const uint8_t* p, int stream) {
  const uint64_t x = reinterpret_cast<uint64_t>(p);
  const uint64_t inside = x % kPrefetchChunk;
  const uint64_t next = x - inside + kPrefetchChunk;
  const uint64_t at = next + static_cast<uint64_t>(stream) * (kPrefetchChunk / 4) + inside / 4;
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

struct I8Panel {
  const uint8_t* codes;
  const uint8_t* scales;  // [segment][16], of the kernel's scale type; unused in kWhole
  const int8_t* zeros;    // [segment][16] or null
  const float* factors;   // [16]: what is constant along K
};

struct I8TileArgs {
  I8Prepared a;  // of the tile
  I8Panel b;
  int64_t segments, segment_steps, last_steps, flush_steps;
  bool integers;  // store int32 sums as they are (kWhole only)
  float* out;     // [row][out_stride], 16 columns
  int64_t out_stride;
};

constexpr bool i8_is_small(int rows) {
  return rows <= kSmallRows;
}

// Accumulators a row and vector, added up at the end of a segment.
constexpr int i8_split(int rows) {
  return SG_CPU_AVX512 && i8_is_small(rows) ? 2 : 1;
}

template <int kRows>
using I8Sums = I[i8_split(kRows)][kRows][kPanelVecs];

// One step: 64 bytes of the panel at b, the dot groups of A at a.
template <int kB, int kRows>
SG_INLINE void i8_step(const uint8_t* a, const uint8_t* b, int parity, I8Sums<kRows>& sum) {
  constexpr int kGroups = i8_groups(kB);
  I w[kPanelVecs][kGroups];
#pragma GCC unroll 2
  for (int v = 0; v < kPanelVecs; ++v) {
    i8_load_weights<kB>(b + v * 4 * kLanes, w[v]);
  }
#pragma GCC unroll 2
  for (int q = 0; q < kGroups; ++q) {
    I(&to)[kRows][kPanelVecs] = sum[(kGroups == 2 ? q : parity) % i8_split(kRows)];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        to[r][v] = i8_dot<kB>(to[r][v], w[v][q], a + (q * kRows + r) * 4);
      }
    }
  }
}

// Where the kernel stands in A and in the panel.
struct I8Cursor {
  const uint8_t* a;
  const uint8_t* b;
};

// As many runs of kUnroll steps as fit in `steps`.
template <int kB, int kRows, int kUnroll>
SG_INLINE void i8_run(int64_t& steps, I8Cursor& at, I8Sums<kRows>& sum) {
  constexpr int64_t kStepA = i8_groups(kB) * kRows * 4;
  const uint8_t* a = at.a;
  const uint8_t* b = at.b;
  for (; steps >= kUnroll; steps -= kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      i8_prefetch(b, kUnroll == 4 ? u : static_cast<int>((reinterpret_cast<uint64_t>(b) / 64 + u) % 4));
      i8_step<kB, kRows>(a + u * kStepA, b + u * 64, u % 2, sum);
    }
    a += kUnroll * kStepA;
    b += kUnroll * 64;
  }
  at = {a, b};
}

// sum += the dots of `steps` steps. Few rows: four steps at a time, a block of 32 of 4-bit weights, or two, a
// block of 16.
template <int kB, int kRows>
SG_INLINE void i8_dots(int64_t steps, I8Cursor& at, I8Sums<kRows>& sum) {
  if constexpr (i8_is_small(kRows)) {
    i8_run<kB, kRows, 4>(steps, at, sum);
    i8_run<kB, kRows, 2>(steps, at, sum);
  }
  i8_run<kB, kRows, 1>(steps, at, sum);
}

// The int32 sums of one segment, corrections for bias and zero points included.
template <int kB, int kRows>
SG_INLINE void i8_segment(const I8TileArgs& t, int64_t segment, int64_t steps, I8Cursor& at,
                          I (&acc)[kRows][kPanelVecs]) {
  const int32_t* correction = t.a.sums + segment * kRows;
  I8Sums<kRows> sum = {};
  if (t.b.zeros) {
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVecs; ++v) {
      const I zero = load_i8(t.b.zeros + segment * kPanelColumns + v * kLanes);
      const I shift = iadd(zero, iset1(i8_bias(kB)));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        acc[r][v] = imul(shift, iset1(correction[r]));
      }
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        acc[r][v] = i8_bias(kB) == 0 ? iset1(0) : iset1(correction[r]);
      }
    }
  }
  if constexpr (i8_short_sums(kB)) {
#if !SG_CPU_AVX512
    while (steps > 0) {
      const int64_t now = steps < t.flush_steps ? steps : t.flush_steps;
      I8Sums<kRows> part = {};
      i8_dots<kB, kRows>(now, at, part);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kPanelVecs; ++v) {
          acc[r][v] = iadd(acc[r][v], _mm256_madd_epi16(part[0][r][v], _mm256_set1_epi16(1)));
        }
      }
      steps -= now;
    }
#endif
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        sum[0][r][v] = acc[r][v];
      }
    }
    i8_dots<kB, kRows>(steps, at, sum);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        acc[r][v] = i8_split(kRows) == 2 ? iadd(sum[0][r][v], sum[i8_split(kRows) - 1][r][v]) : sum[0][r][v];
      }
    }
  }
}

// sum += float(acc) * the scales of a segment.
template <int kRows, I8Mode kMode, int kScale>
SG_INLINE void i8_scale(const I8TileArgs& t, int64_t segment, const I (&acc)[kRows][kPanelVecs],
                        F (&sum)[kRows][kPanelVecs]) {
#pragma GCC unroll 2
  for (int v = 0; v < kPanelVecs; ++v) {
    const int64_t at = segment * kPanelColumns + v * kLanes;
    const F b = i8_scale_vector<kScale>(t.b.scales + at * storage_bytes(kScale));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F scale = kMode == I8Mode::kBoth ? mul(b, set1(t.a.scales[segment * kRows + r])) : b;
      sum[r][v] = fma(to_float(acc[r][v]), scale, sum[r][v]);
    }
  }
}

// kScale: the type of the panel's scales, SG_F32 unless the rows are few and read them in place.
template <int kB, int kRows, I8Mode kMode, int kScale = SG_F32>
void i8_tile(const I8TileArgs& t) {
  I8Cursor at = {t.a.codes, t.b.codes};
  F sum[kRows][kPanelVecs];
  if constexpr (kMode == I8Mode::kWhole) {
    I acc[kRows][kPanelVecs];
    i8_segment<kB, kRows>(t, 0, t.last_steps, at, acc);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        sum[r][v] = t.integers ? as_float(acc[r][v]) : to_float(acc[r][v]);
      }
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kPanelVecs; ++v) {
        sum[r][v] = zero();
      }
    }
    for (int64_t s = 0; s < t.segments; ++s) {
      I acc[kRows][kPanelVecs];
      i8_segment<kB, kRows>(t, s, s + 1 < t.segments ? t.segment_steps : t.last_steps, at, acc);
      i8_scale<kRows, kMode, kScale>(t, s, acc, sum);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const F row = set1(t.a.factors[r]);
#pragma GCC unroll 2
    for (int v = 0; v < kPanelVecs; ++v) {
      float* out = t.out + r * t.out_stride + v * kLanes;
      const F factor = load(t.b.factors + v * kLanes);
      store(out, kMode == I8Mode::kWhole && t.integers ? sum[r][v] : mul(mul(sum[r][v], factor), row));
    }
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_TILE_H_
