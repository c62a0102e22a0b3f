// Results on their way to D through shared memory as f32: for the outputs of eight bits, and for epilogues
// with more than scales.
//
// A chunk is 16 rows x 8 kUnits columns of one warp. It is written in fragment order, finished and stored in
// quads of four neighbouring columns, so that one copy of the code serves all of a tile, whose sums are still
// in registers, and D, C and bias are read and written along their rows. Unit u (16 bytes, one quad) of row r
// lies at u ^ 2r: free of bank conflicts both ways.
#pragma once
#include "cuda/finish.cuh"

namespace scalegemm::cuda {

SG_DEVICE Finish finish_of(const SgTmaEpilogue& e) {
  return {e.beta != 0.0f ? e.c : nullptr,
          e.bias,
          static_cast<i64>(e.c_stride_m),
          static_cast<i64>(e.c_stride_n),
          e.c_dtype,
          e.bias_dtype,
          e.activation,
          1.0f,  // alpha is in the row factors
          e.beta,
          e.clamp_min,
          e.clamp_max};
}

// The code of one number in D's type, in the low bits.
template <Type kD>
SG_DEVICE u32 code_of(float v) {
  if constexpr (kD == Type::kE4m3 || kD == Type::kE5m2)
    return pack_float8<kD == Type::kE4m3>(v, 0.0f) & 0xff;
  else if constexpr (kD == Type::kBf16)
    return pack_bf16(v, 0.0f) & 0xffff;
  else if constexpr (kD == Type::kF16)
    return pack_f16(v, 0.0f) & 0xffff;
  else
    return __float_as_uint(v);
}
// Four numbers to D, `count` of them existing; `whole`: all do, and d is aligned to all four.
template <Type kD>
SG_DEVICE void store_numbers(void* d, const float (&v)[4], u32 count, bool whole) {
  if (whole) {
    if constexpr (bytes_of(kD) == 4)
      store_global_16(
          d, {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])});
    else if constexpr (bytes_of(kD) == 2)
      *static_cast<u64*>(d) = (code_of<kD>(v[0]) | code_of<kD>(v[1]) << 16) |
                              static_cast<u64>(code_of<kD>(v[2]) | code_of<kD>(v[3]) << 16) << 32;
    else
      *static_cast<u32*>(d) =
          pack_float8<kD == Type::kE4m3>(v[0], v[1]) | pack_float8<kD == Type::kE4m3>(v[2], v[3]) << 16;
    return;
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i)
    if (i < count)
      store_code(static_cast<u8*>(d) + i * bytes_of(kD), code_of<kD>(v[i]), bytes_of(kD));
}

// kAhead: quads whose loads of C are in flight together.
template <Type kD, u32 kUnits, bool kFused, u32 kAhead>
struct StagedChunk {
  static constexpr u32 kQuads = 2 * kUnits, kRowBytes = 16 * kQuads, kBytes = 16 * kRowBytes;
  static constexpr u32 kTurns = 16 * kQuads / kWarp;  // quads of a lane

  u32 staging, lane;
  const SgTmaGemm& p;
  u32 row0, column0, units;  // the chunk's place in D; its width in groups of eight columns

  SG_DEVICE u32 address(u32 row, u32 quad) const {
    return staging + row * kRowBytes + ((quad ^ (2 * row % kQuads)) * 16);
  }
  // Group u of this lane's fragment: (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1).
  SG_DEVICE void write(u32 u, const float (&v)[4]) const {
    const u32 row = lane / 4, quad = 2 * u + lane % 4 / 2, within = lane % 2 * 8;
    store_shared_2(address(row, quad) + within, v[0], v[1]);
    store_shared_2(address(row + 8, quad) + within, v[2], v[3]);
  }
  SG_DEVICE static void store_shared_2(u32 to, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
  }

  struct Quad {
    u32 row, quad, m, n, count;  // count: columns that exist
  };
  SG_DEVICE Quad quad(u32 turn) const {
    Quad q;
    const u32 i = turn * kWarp + lane;
    q.row = i / kQuads, q.quad = i % kQuads, q.m = row0 + q.row, q.n = column0 + 4 * q.quad;
    const bool inside = q.m < p.d.rows && q.n < p.d.columns && q.quad < 2 * units;
    q.count = inside ? min_of(p.d.columns - q.n, 4) : 0;
    return q;
  }

  // The warp has written the chunk. Afterwards it may write the next one.
  SG_DEVICE void finish() const {
    __syncwarp();
    const Finish f = finish_of(p.epilogue);
    if (kFused && (f.c != nullptr || f.bias != nullptr))
      add_terms(f);
#pragma unroll 1
    for (u32 turn = 0; turn < kTurns; ++turn) {
      const Quad q = quad(turn);
      if (q.count == 0)
        continue;
      const U32x4 bits = load_shared_16(address(q.row, q.quad));
      float v[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                    __uint_as_float(bits.w)};
      if constexpr (kFused) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
          v[i] = f.shape(v[i]);
      }
      u8* d = static_cast<u8*>(p.d.data) + (q.m * p.d.stride + q.n) * bytes_of(kD);
      store_numbers<kD>(d, v, q.count, p.d.vectors != 0 && q.count == 4);
    }
    __syncwarp();
  }

 private:
  // Adds beta * C and the bias in place.
  SG_DEVICE void add_terms(const Finish& f) const {
    static_assert(kTurns % kAhead == 0, "whole groups of turns");
#pragma unroll 1
    for (u32 turn = 0; turn < kTurns; turn += kAhead) {
      float c[kAhead][4];
#pragma unroll
      for (u32 t = 0; t < kAhead; ++t)
        load_terms(c[t], f, quad(turn + t));
#pragma unroll
      for (u32 t = 0; t < kAhead; ++t) {
        const Quad q = quad(turn + t);
        const u32 at = address(q.row, q.quad);
        const U32x4 bits = load_shared_16(at);
        const u32 old[4] = {bits.x, bits.y, bits.z, bits.w};
        float v[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
          v[i] = __uint_as_float(old[i]);
          if (f.c != nullptr)
            v[i] = __fmaf_rn(f.beta, c[t][i], v[i]);
          if (f.bias != nullptr && i < q.count)
            v[i] = __fadd_rn(v[i], load_number(f.bias, q.n + i, f.bias_dtype));
        }
        store_shared_2(at, v[0], v[1]);
        store_shared_2(at + 8, v[2], v[3]);
      }
    }
  }
  SG_DEVICE static void load_terms(float (&c)[4], const Finish& f, const Quad& q) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      c[i] = 0;
      if (f.c != nullptr && i < q.count)
        c[i] = load_number(f.c, q.m * f.c_stride_m + (q.n + i) * f.c_stride_n, f.c_dtype);
    }
  }
};

}  // namespace scalegemm::cuda
