// The CPU kernel families: what each is compiled for and what it takes at run time. One row a family and
// target; a spec of a CPU kernel is legal when it is exactly what a row makes.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "arch/instructions.h"
#include "spec/decline.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::arch {

using spec::Decline;
using spec::KernelSpec;
using spec::Pipeline;
using spec::Problem;

struct CpuFamily {
  Target target;
  Pipeline pipeline;
  std::span<const DType> b_types;  // one kernel each
  Dims tile;  // k: f32fma the K block of a decoded panel; i8dot the k that a 64-byte step holds of 8-bit B
  Dims instruction;
};

inline constexpr DType kFloatB[] = {DType::kF32,      DType::kF16,  DType::kBf16,     DType::kE4m3,
                                    DType::kE4m3Fnuz, DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1,
                                    DType::kInt8,     DType::kInt4, DType::kUint4};
inline constexpr DType kCodeB[] = {DType::kInt8, DType::kInt4, DType::kUint4, DType::kE2m1};

// Types whose every code, and difference of a code and a zero point, is a bf16 number.
inline constexpr DType kBf16B[] = {DType::kBf16, DType::kE4m3,     DType::kE4m3Fnuz,
                                   DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1,
                                   DType::kInt8, DType::kInt4,     DType::kUint4};

inline constexpr std::array<CpuFamily, 5> kCpuFamilies = {{
    {Target::kX86V3, Pipeline::kF32Fma, kFloatB, {6, 16, 256}, {1, 8, 1}},
    {Target::kX86V3, Pipeline::kI8Dot, kCodeB, {6, 16, 4}, {1, 8, 4}},
    {Target::kAvx512, Pipeline::kF32Fma, kFloatB, {14, 32, 256}, {1, 16, 1}},
    {Target::kAvx512, Pipeline::kI8Dot, kCodeB, {14, 16, 4}, {1, 16, 4}},
    {Target::kAvx512Bf16, Pipeline::kBf16Dot, kBf16B, {14, 32, 256}, {1, 16, 2}},
}};

// The tile of a family's kernel for one type of B: a step of the i8dot panel holds twice the k of 4-bit B.
constexpr Dims tile_of(const CpuFamily& family, DType b) {
  const bool twice = family.pipeline == Pipeline::kI8Dot && num::is_packed4(b);
  return {family.tile.m, family.tile.n, family.tile.k * (twice ? 2 : 1)};
}

// The row of that target and pipeline, or null.
const CpuFamily* find_family(Target target, Pipeline pipeline);

// The spec of a family's kernel for one type of B.
KernelSpec make_spec(const CpuFamily& family, DType b);

// Every kernel that a CPU target adds, in the order of the table (a CPU that has avx512bf16 runs those of
// avx512 too).
std::vector<KernelSpec> cpu_specs(Target target);

// Does this kernel take the problem? Nothing, or the first rule that it breaks (without the kernel's name).
// `problem` must be valid (spec::validate).
std::optional<Decline> cpu_declines(const KernelSpec& spec, const Problem& problem);

// Registers a tile needs: accumulators, one vector of B a column group, one for A.
constexpr int tile_registers(const CpuFamily& family) {
  const int vectors = family.tile.n / family.instruction.n;
  const int sums = family.tile.m * vectors;
  // i8dot keeps int32 sums of a block beside the f32 sums; its A and B are memory operands or shared.
  return family.pipeline == Pipeline::kI8Dot ? 2 * sums : sums + vectors + 1;
}

constexpr bool cpu_families_are_consistent() {
  for (const CpuFamily& family : kCpuFamilies) {
    // An index: with -fsanitize=undefined GCC takes no comparison of a pointer for constant.
    size_t row = kInstructions.size();
    for (size_t i = 0; i < kInstructions.size(); ++i) {
      if (kInstructions[i].target == family.target && has_shape(kInstructions[i], family.instruction)) {
        row = i;
      }
    }
    const bool integer = family.pipeline == Pipeline::kI8Dot;
    if (row == kInstructions.size() || (kInstructions[row].sums == DType::kInt32) != integer ||
        family.tile.n % family.instruction.n != 0 || family.tile.k % family.instruction.k != 0) {
      return false;
    }
    // The AVX2 int8 tile spills its f32 sums on purpose (they are touched once a block).
    const bool may_spill = integer && family.target == Target::kX86V3;
    if (!may_spill && tile_registers(family) > limits(family.target).vector_registers) {
      return false;
    }
  }
  return true;
}
static_assert(cpu_families_are_consistent());

}  // namespace scalegemm::arch
