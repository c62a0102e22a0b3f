// What the int8-dot kernels take, as data: shared by dispatch (to decline with a reason) and the tests. No
// intrinsics: any C++ translation unit may include it.
#ifndef SCALEGEMM_KERNELS_CPU_I8_LIMITS_H_
#define SCALEGEMM_KERNELS_CPU_I8_LIMITS_H_

#include <stdint.h>

#include "common/panels.h"
#include "cpu/abi.h"

namespace scalegemm_kernel {

// The first rule a problem breaks, or kI8Accepted.
enum I8Decline {
  kI8Accepted = 0,
  kI8TypeA,         // A must be int8, int4, uint4 or e2m1
  kI8TypeB,         // B must be int8, int4, uint4 or e2m1
  kI8PackedLayout,  // packed B must be SG_PANEL_K4X16
  kI8ScaleType,     // scales must be f32, f16, bf16, e8m0 or e4m3
  kI8ZeroA,         // zero points of A: only 4-bit ones on int4 or uint4 codes
  kI8ZeroB,         // zero points of B: int8, int4 or uint4 ones on int8, int4 or uint4 codes
  kI8BlockK,        // the common block of K must be a multiple of 4 (int8 B) or 8 (4-bit B)
  kI8BlockTooLong,  // one integer sum a block must fit: k <= 131071, 65536 with zero points
  kI8IntegerOut     // int32 D: int8 x int8 without scales, zero points or epilogue, K <= 131071
};

struct I8DeclineRule {
  const char* rule;
  const char* needed;
};

inline I8DeclineRule i8_decline_rule(I8Decline decline) {
  static constexpr I8DeclineRule kRules[] = {
      {"", ""},
      {"i8dot: type of A", "int8, int4, uint4 or e2m1"},
      {"i8dot: type of B", "int8, int4, uint4 or e2m1"},
      {"i8dot: packed layout of B", "k4x16"},
      {"i8dot: scale type", "f32, f16, bf16, e8m0 or e4m3"},
      {"i8dot: zero points of A", "none, or 4-bit zero points on int4 or uint4"},
      {"i8dot: zero points of B", "none, or int8, int4 or uint4 zero points on an integer type"},
      {"i8dot: common block_k of A and B", "a multiple of 4 (int8 B) or 8 (4-bit B)"},
      {"i8dot: common block_k of A and B", "at most 131071 (65536 with zero points)"},
      {"i8dot: int32 output", "int8 x int8 without scales, zero points and epilogue, K <= 131071"}};
  return kRules[decline];
}

inline bool i8_is_code(int32_t type) {
  return type == SG_INT8 || type == SG_INT4 || type == SG_UINT4 || type == SG_E2M1;
}

inline bool i8_is_scale(int32_t type) {
  return type == SG_F32 || type == SG_F16 || type == SG_BF16 || type == SG_E8M0 || type == SG_E4M3;
}

inline int64_t i8_common_block(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// block_k of scales or zero points that change along K; 0 where nothing does.
inline int64_t i8_varying_block(const SgOperand& x, int64_t k) {
  const int64_t block = x.scale.data ? x.scale.block_k : x.zero.data ? x.zero.block_k : k;
  return block >= k ? 0 : block;
}

// The longest K whose integer sum always fits int32 (the derivation is in i8_plan.h), and what a longer K
// is cut to.
constexpr int64_t kI8CutK = 65536;
inline int64_t i8_longest_sum(const SgCpuGemm& g) {
  return g.b.zero.data ? kI8CutK : 131071;
}

// Reads sizes, types and whether pointers are null; the pointers themselves may be stand-ins.
inline I8Decline i8_accepts(const SgCpuGemm& g) {
  const SgOperand& a = g.a;
  const SgOperand& b = g.b;
  if (!i8_is_code(a.dtype)) {
    return kI8TypeA;
  }
  if (!i8_is_code(b.dtype)) {
    return kI8TypeB;
  }
  if (b.packed != SG_RAW && b.packed != SG_PANEL_K4X16) {
    return kI8PackedLayout;
  }
  if ((a.scale.data && !i8_is_scale(a.scale.dtype)) || (b.scale.data && !i8_is_scale(b.scale.dtype))) {
    return kI8ScaleType;
  }
  if (a.zero.data && (a.dtype == SG_INT8 || a.dtype == SG_E2M1 || a.zero.dtype == SG_INT8)) {
    return kI8ZeroA;
  }
  if (b.zero.data && b.dtype == SG_E2M1) {
    return kI8ZeroB;
  }
  const int64_t block = i8_common_block(i8_varying_block(a, g.k), i8_varying_block(b, g.k));
  if (block % (b.dtype == SG_INT8 ? 4 : 8) != 0) {
    return kI8BlockK;
  }
  if (block > i8_longest_sum(g)) {
    return kI8BlockTooLong;
  }
  const bool scaled = a.scale.data || b.scale.data || a.zero.data || b.zero.data || a.global_scale ||
                      b.global_scale || g.bias || g.activation != SG_ACT_NONE || g.alpha != 1.0f ||
                      (g.c && g.beta != 0.0f);
  if (g.d_dtype == SG_INT32 &&
      (scaled || a.dtype != SG_INT8 || b.dtype != SG_INT8 || g.k > i8_longest_sum(g))) {
    return kI8IntegerOut;
  }
  return kI8Accepted;
}

}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_I8_LIMITS_H_
