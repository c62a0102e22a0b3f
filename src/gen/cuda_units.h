// Units of CUDA kernels that are no GEMM: what a plan needs beside one.
#pragma once

#include <vector>

#include "base/status.h"
#include "gen/generate.h"
#include "spec/target.h"

namespace scalegemm::gen {

// The kernel that lays operands out anew for TMA (kernels/cuda/relayout.cuh).
Result<KernelSource> relayout_unit(spec::Target target);

// The units that are built in with the CUDA kernels of a target.
Result<std::vector<KernelSource>> support_units(spec::Target target);

}  // namespace scalegemm::gen
