// The instructions that kernels may be built from: one row each. A spec whose instruction is no row of its
// target is illegal; composites of several instructions are not rows.
//
// Shapes are M x N x K of one instruction; for vector instructions M is 1 and N the lanes of the
// accumulator. Sources: Intel SDM vol. 2; PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; the
// instructions that LLVM assembles for gfx942 and gfx950 (v_mfma_*), of which FP6 is left out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/targets.h"
#include "num/dtype.h"
#include "spec/kernel_spec.h"

namespace scalegemm::arch {

using num::DType;
using spec::Dims;

// A set of operand types, so that one row serves every mix that an instruction takes.
struct TypeSet {
  uint32_t bits = 0;

  constexpr TypeSet(std::initializer_list<DType> types) {
    for (DType type : types) {
      bits |= 1u << static_cast<int>(type);
    }
  }
  constexpr bool has(DType type) const { return (bits >> static_cast<int>(type) & 1u) != 0; }
};

struct Instruction {
  Target target;
  const char* mnemonic;
  TypeSet types;  // of A and of B, in every mix
  DType sums;     // type of the accumulator
  Dims shape;     // n is the least one where a range is legal
  int n_step;     // legal n: shape.n, shape.n + n_step, ... n_max; 0: shape.n only
  int n_max;
  int k_per_scale;  // e8m0 scales applied by the instruction, one per so many k; 0: none
  bool k_major;     // takes operands with contiguous K only
  int rate;         // dense flops a clock of one multiprocessor or compute unit; 0: measured or not known
};

inline constexpr TypeSet kF32Only = {DType::kF32};
inline constexpr TypeSet kF16Only = {DType::kF16};
inline constexpr TypeSet kBf16Only = {DType::kBf16};
inline constexpr TypeSet kInt8Only = {DType::kInt8};
inline constexpr TypeSet kOcp8 = {DType::kE4m3, DType::kE5m2};
inline constexpr TypeSet kFnuz8 = {DType::kE4m3Fnuz, DType::kE5m2Fnuz};
inline constexpr TypeSet kF8F6F4 = {DType::kE4m3, DType::kE5m2, DType::kE2m1};

// clang-format off
inline constexpr auto kInstructions = std::to_array<Instruction>({
    {Target::kX86V3,      "vfmadd231ps",                       kF32Only,  DType::kF32,   {1, 8, 1}, 0, 8, 0, false, 0},
    // 16-bit sums of two products saturate: kernels keep operands small enough or split them.
    {Target::kX86V3,      "vpmaddubsw+vpmaddwd",               kInt8Only, DType::kInt32, {1, 8, 4}, 0, 8, 0, false, 0},

    {Target::kAvx512,     "vfmadd231ps",                       kF32Only,  DType::kF32,   {1, 16, 1}, 0, 16, 0, false, 0},
    {Target::kAvx512,     "vpdpbusd",                          kInt8Only, DType::kInt32, {1, 16, 4}, 0, 16, 0, false, 0},

    {Target::kAvx512Bf16, "vfmadd231ps",                       kF32Only,  DType::kF32,   {1, 16, 1}, 0, 16, 0, false, 0},
    {Target::kAvx512Bf16, "vpdpbusd",                          kInt8Only, DType::kInt32, {1, 16, 4}, 0, 16, 0, false, 0},
    {Target::kAvx512Bf16, "vdpbf16ps",                         kBf16Only, DType::kF32,   {1, 16, 2}, 0, 16, 0, false, 0},


    {Target::kSm90a,      "wgmma.f16",                         kF16Only,  DType::kF32,   {64, 8, 16}, 8, 256, 0, false, 4096},
    {Target::kSm90a,      "wgmma.bf16",                        kBf16Only, DType::kF32,   {64, 8, 16}, 8, 256, 0, false, 4096},
    {Target::kSm90a,      "wgmma.f8",                          kOcp8,     DType::kF32,   {64, 8, 32}, 8, 256, 0, true, 8192},

    {Target::kSm90a,      "wgmma.s8",                          kInt8Only, DType::kInt32, {64, 8, 32}, 8, 256, 0, true, 8192},

    // PTX ISA, "Matrix multiply-accumulate operation using mma instruction"; f32 without the tensor core.
    {Target::kSm90a,      "mma.f16",                           kF16Only,  DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 2048},
    {Target::kSm90a,      "mma.bf16",                          kBf16Only, DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 2048},
    {Target::kSm90a,      "mma.s8",                            kInt8Only, DType::kInt32, {16, 8, 32}, 0, 8, 0, false, 4096},
    {Target::kSm90a,      "fma.f32",                           kF32Only,  DType::kF32,   {1, 1, 1}, 0, 1, 0, false, 256},
    {Target::kSm80,       "mma.f16",                           kF16Only,  DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 2048},
    {Target::kSm80,       "mma.bf16",                          kBf16Only, DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 2048},
    {Target::kSm80,       "mma.s8",                            kInt8Only, DType::kInt32, {16, 8, 32}, 0, 8, 0, false, 4096},
    {Target::kSm80,       "fma.f32",                           kF32Only,  DType::kF32,   {1, 1, 1}, 0, 1, 0, false, 128},
    {Target::kSm89,       "mma.f16",                           kF16Only,  DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 1024},
    {Target::kSm89,       "mma.bf16",                          kBf16Only, DType::kF32,   {16, 8, 16}, 0, 8, 0, false, 1024},
    {Target::kSm89,       "mma.s8",                            kInt8Only, DType::kInt32, {16, 8, 32}, 0, 8, 0, false, 2048},
    {Target::kSm89,       "fma.f32",                           kF32Only,  DType::kF32,   {1, 1, 1}, 0, 1, 0, false, 256},

    {Target::kGfx942,     "v_mfma_f32_16x16x4_f32",            kF32Only,  DType::kF32,   {16, 16, 4}, 0, 16, 0, false, 256},
    {Target::kGfx942,     "v_mfma_f32_16x16x16_f16",           kF16Only,  DType::kF32,   {16, 16, 16}, 0, 16, 0, false, 2048},
    {Target::kGfx942,     "v_mfma_f32_32x32x8_f16",            kF16Only,  DType::kF32,   {32, 32, 8}, 0, 32, 0, false, 2048},
    {Target::kGfx942,     "v_mfma_f32_16x16x16_bf16",          kBf16Only, DType::kF32,   {16, 16, 16}, 0, 16, 0, false, 2048},
    {Target::kGfx942,     "v_mfma_f32_32x32x8_bf16",           kBf16Only, DType::kF32,   {32, 32, 8}, 0, 32, 0, false, 2048},
    {Target::kGfx942,     "v_mfma_f32_16x16x32_f8",            kFnuz8,    DType::kF32,   {16, 16, 32}, 0, 16, 0, false, 4096},
    {Target::kGfx942,     "v_mfma_f32_32x32x16_f8",            kFnuz8,    DType::kF32,   {32, 32, 16}, 0, 32, 0, false, 4096},
    {Target::kGfx942,     "v_mfma_i32_16x16x32_i8",            kInt8Only, DType::kInt32, {16, 16, 32}, 0, 16, 0, false, 4096},
    {Target::kGfx942,     "v_mfma_i32_32x32x16_i8",            kInt8Only, DType::kInt32, {32, 32, 16}, 0, 32, 0, false, 4096},

    {Target::kGfx950,     "v_mfma_f32_16x16x4_f32",            kF32Only,  DType::kF32,   {16, 16, 4}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_16x16x16_f16",           kF16Only,  DType::kF32,   {16, 16, 16}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_32x32x8_f16",            kF16Only,  DType::kF32,   {32, 32, 8}, 0, 32, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_16x16x32_f16",           kF16Only,  DType::kF32,   {16, 16, 32}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_32x32x16_f16",           kF16Only,  DType::kF32,   {32, 32, 16}, 0, 32, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_16x16x16_bf16",          kBf16Only, DType::kF32,   {16, 16, 16}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_32x32x8_bf16",           kBf16Only, DType::kF32,   {32, 32, 8}, 0, 32, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_16x16x32_bf16",          kBf16Only, DType::kF32,   {16, 16, 32}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_32x32x16_bf16",          kBf16Only, DType::kF32,   {32, 32, 16}, 0, 32, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_16x16x32_f8",            kOcp8,     DType::kF32,   {16, 16, 32}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_f32_32x32x16_f8",            kOcp8,     DType::kF32,   {32, 32, 16}, 0, 32, 0, false, 0},
    {Target::kGfx950,     "v_mfma_scale_f32_16x16x128_f8f6f4", kF8F6F4,   DType::kF32,   {16, 16, 128}, 0, 16, 32, false, 0},
    {Target::kGfx950,     "v_mfma_scale_f32_32x32x64_f8f6f4",  kF8F6F4,   DType::kF32,   {32, 32, 64}, 0, 32, 32, false, 0},
    {Target::kGfx950,     "v_mfma_i32_16x16x32_i8",            kInt8Only, DType::kInt32, {16, 16, 32}, 0, 16, 0, false, 0},
    {Target::kGfx950,     "v_mfma_i32_32x32x16_i8",            kInt8Only, DType::kInt32, {32, 32, 16}, 0, 32, 0, false, 0},
});
// clang-format on

// A GPU operand of `from` may be fed to an instruction as `to`, KernelSpec::via: every value of `from` is a
// value of `to`. The first row of a type is the one to prefer.
// (Block scales are then folded into the exponent or applied to partial sums by the kernel.)
struct Widening {
  DType from, to;
};
inline constexpr Widening kWidenings[] = {
    {DType::kE2m1, DType::kE5m2},     {DType::kE2m1, DType::kE4m3},    {DType::kE2m1, DType::kBf16},
    {DType::kE2m1, DType::kF16},      {DType::kInt4, DType::kE4m3},    {DType::kInt4, DType::kBf16},
    {DType::kInt4, DType::kF16},      {DType::kUint4, DType::kE4m3},   {DType::kUint4, DType::kBf16},
    {DType::kUint4, DType::kF16},     {DType::kInt8, DType::kBf16},    {DType::kInt8, DType::kF16},
    {DType::kE4m3, DType::kBf16},     {DType::kE4m3, DType::kF16},     {DType::kE5m2, DType::kBf16},
    {DType::kE5m2, DType::kF16},      {DType::kInt4, DType::kInt8},    {DType::kUint4, DType::kInt8},
    {DType::kE4m3Fnuz, DType::kBf16}, {DType::kE4m3Fnuz, DType::kF16}, {DType::kE5m2Fnuz, DType::kBf16},
    {DType::kE5m2Fnuz, DType::kF16},
};

constexpr bool widens(DType from, DType to) {
  if (to == DType::kF32) {
    return from != to;  // every operand type is exact in f32
  }
  for (const Widening& row : kWidenings) {
    if (row.from == from && row.to == to) {
      return true;
    }
  }
  return false;
}

// Can an operand stored as `type` be fed to an instruction that takes `set`, as itself or as `via`?
constexpr bool feeds(DType type, std::optional<DType> via, const TypeSet& set) {
  return set.has(type) || (via && set.has(*via) && widens(type, *via));
}

constexpr bool has_shape(const Instruction& row, const Dims& dims) {
  if (row.shape.m != dims.m || row.shape.k != dims.k || dims.n < row.shape.n || dims.n > row.n_max) {
    return false;
  }
  return row.n_step == 0 ? dims.n == row.shape.n : (dims.n - row.shape.n) % row.n_step == 0;
}

// Operands of a kernel and the type that they are widened to where the instruction does not take their own.
struct Operands {
  DType a, b;
  std::optional<DType> via;
};

constexpr bool feeds(const Operands& x, const TypeSet& set) {
  return feeds(x.a, x.via, set) && feeds(x.b, x.via, set);
}

// The row of that shape that the operands feed, or null. There is at most one for operands without `via`, and
// at most one that needs a given `via`: rows of one target and shape have disjoint types.
constexpr const Instruction* find_instruction(Target target, const Operands& operands, const Dims& shape) {
  for (const Instruction& row : kInstructions) {
    if (row.target == target && has_shape(row, shape) && feeds(operands, row.types)) {
      return &row;
    }
  }
  return nullptr;
}

constexpr bool has_instruction(Target target, const Operands& operands, const Dims& shape) {
  for (const Instruction& row : kInstructions) {
    if (row.target == target && has_shape(row, shape) && feeds(operands, row.types)) {
      return true;
    }
  }
  return false;
}

constexpr bool instructions_are_consistent() {
  for (const Instruction& row : kInstructions) {
    const bool integer = row.types.has(DType::kInt8);
    const TargetLimits& t = limits(row.target);
    const bool lanes_fit = !spec::is_cpu(row.target) || row.shape.n * 32 == t.vector_bits;
    const bool flavour_fits =
        t.fp8 == Fp8Flavour::kOcp ? (row.types.bits & kFnuz8.bits) == 0 : (row.types.bits & kOcp8.bits) == 0;
    const bool shape_fits = row.shape.m > 0 && row.shape.n > 0 && row.shape.k > 0 &&
                            row.n_max >= row.shape.n &&
                            (row.n_step == 0 || (row.n_max - row.shape.n) % row.n_step == 0);
    const bool scale_fits = row.k_per_scale == 0 || row.shape.k % row.k_per_scale == 0;
    if ((row.sums == DType::kInt32) != integer || !lanes_fit || !flavour_fits || !shape_fits || !scale_fits) {
      return false;
    }
  }
  return true;
}
static_assert(instructions_are_consistent());

constexpr bool instructions_are_distinct() {
  for (size_t i = 0; i < kInstructions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Instruction& x = kInstructions[i];
      const Instruction& y = kInstructions[j];
      if (x.target == y.target && x.shape == y.shape && (x.types.bits & y.types.bits) != 0) {
        return false;
      }
    }
  }
  return true;
}
static_assert(instructions_are_distinct());

// Shapes and flavours that elsewhere compile and give zeros or NaN have no row.
inline constexpr Operands kFnuzPair{DType::kE4m3Fnuz, DType::kE4m3Fnuz, std::nullopt};
inline constexpr Operands kOcpPair{DType::kE4m3, DType::kE4m3, std::nullopt};
static_assert(!has_instruction(Target::kGfx942, kFnuzPair, {16, 16, 128}));
static_assert(!has_instruction(Target::kGfx942, kOcpPair, {16, 16, 32}));
static_assert(!has_instruction(Target::kGfx950, kFnuzPair, {16, 16, 32}));
static_assert(has_instruction(Target::kSm90a, {DType::kE2m1, DType::kE4m3, DType::kE5m2}, {64, 256, 32}));

}  // namespace scalegemm::arch
