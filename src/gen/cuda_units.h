// Units of CUDA kernels that are no GEMM.
#pragma once

#include "base/status.h"
#include "gen/generate.h"
#include "spec/target.h"

namespace scalegemm::gen {

// What measures a GPU (kernels/cuda/probe.cuh): launch and read on every target, matrix rates on sm_90a.
Result<KernelSource> probe_unit(spec::Target target);

}  // namespace scalegemm::gen
