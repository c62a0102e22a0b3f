// Every f32 kernel of both ISAs, as the tests and the micro benchmark see them.
#pragma once

#include <vector>

#include "cpu/abi.h"

namespace scalegemm::kernels {

struct F32KernelEntry {
  const char* isa;   // "avx512" or "avx2"
  const char* name;  // of the type of B
  int b_type;        // SgDType
  const SgCpuKernel* kernel;
};

// Those this machine can run.
std::vector<F32KernelEntry> f32_kernels();

}  // namespace scalegemm::kernels
