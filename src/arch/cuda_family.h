// The CUDA kernel families: the TMA families of sm_90a (wgmma) and the mma family, which takes every problem.
#pragma once

#include <optional>
#include <vector>

#include "arch/instructions.h"
#include "spec/decline.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::arch {

// Elements of K between fp32 promotions of a TMA kernel; 0: the tensor core sums all of K. It is the scale
// block where there is one (128 at most), 128 for accuracy promoted and exact where the tensor core rounds
// (fp8), and 0 where its sums are as good as fp32 (int8 exact, bf16 and f16).
int promote_k(const spec::KernelSpec& spec);

// Operands that the TMA families multiply.
bool tma_types(DType a, DType b);

// Rules of the TMA families beyond those of every GPU spec, as what was needed and what was given.
struct Need {
  std::string needed, got;
};
std::optional<Need> tma_need(const spec::KernelSpec& spec);
std::optional<Need> mma_need(const spec::KernelSpec& spec);

// The specs of the family's own tables for a problem; empty where the family cannot take its types or scales.
std::vector<spec::KernelSpec> tma_candidates(const spec::Problem& problem);
std::vector<spec::KernelSpec> mma_candidates(Target target, const spec::Problem& problem);

// What a plan of this kernel may have to copy into its workspace before a run, in the form that TMA can
// address: operands in other layouts, those whose rows are not a multiple of 16 bytes long, and block scales,
// where the copy costs less than the kernel with strided scales. A run whose strides are good all the same
// copies nothing.
struct Relayout {
  bool a = false;
  bool b = false;
  bool scale_a = false;
  bool scale_b = false;
  bool operands() const { return a || b; }
  bool any() const { return operands() || scale_a || scale_b; }
};
Relayout relayout_for(const spec::KernelSpec& spec, const spec::Problem& problem);

// The type that the mma family widens both operands to: int8, f16, bf16 or f32 (no tensor core), each exact.
DType mma_via(const spec::Problem& problem);

}  // namespace scalegemm::arch
