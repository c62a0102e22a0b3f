// Every int8-dot kernel of both ISAs, as the tests and the micro benchmark see them.
#pragma once

#include <vector>

#include "cpu/abi.h"

namespace scalegemm::kernels {

struct I8KernelEntry {
  const char* isa;   // "avx512" or "avx2"
  const char* name;  // of the type of B
  int b_type;        // SgDType
  const SgCpuKernel* kernel;
};

// Those this machine can run, AVX-512 first.
std::vector<I8KernelEntry> i8_kernels();

}  // namespace scalegemm::kernels
