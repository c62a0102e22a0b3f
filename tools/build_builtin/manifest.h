// Reads a manifest: which kernels are linked into the library.
//
//   [[kernels]]                        one or more of these; every list is multiplied with the others
//   targets = ["x86-64-v3", "avx512"]  CPU families
//   pipelines = ["f32fma"]
//   b = ["e4m3", "int4"]               types of B; ["all"]: all that the family has
//
//   [[kernels]]                        what dispatch would choose for these problems ("rcr", N = K = 4096)
//   targets = ["sm_90a"]
//   schemes = ["rowcol", "abquant:bn=128"]  "all": every known one
//   m = [16, 4096]
//   d = ["bf16"]
//   accuracy = ["fast"]                optional: promoted
//   epilogue = ["plain", "fused"]      optional: plain; fused: with bias, C, activation or clamp
//   pipelines = ["mma"]                optional: any
//
//   [[kernels]]                        every kernel of the shipped tuned table for these targets
//   tuned = ["sm_90a"]
//
//   [[kernels]]
//   names = ["gemm_..."]               kernels by name
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/kernel_spec.h"

namespace scalegemm::build_builtin {

// The specs in the manifest's order, each once. `where` names the file in messages. kInvalidArgument with the
// table's line for anything unknown or empty, and for a kernel that does not exist.
Result<std::vector<spec::KernelSpec>> read_manifest(std::string_view text, const std::string& where);

}  // namespace scalegemm::build_builtin
