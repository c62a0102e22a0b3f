#include "kernels/i8_kernels.h"

#define SG_FOR_TYPES(X, ISA) \
  X(ISA, INT8, int8)         \
  X(ISA, INT4, int4)         \
  X(ISA, UINT4, uint4)       \
  X(ISA, E2M1, e2m1)

#define SG_DECLARE(ISA, TYPE, NAME) extern "C" const SgCpuKernel* sg_i8_##NAME##_##ISA(void);
SG_FOR_TYPES(SG_DECLARE, avx512)
SG_FOR_TYPES(SG_DECLARE, avx2)

namespace scalegemm::kernels {

std::vector<I8KernelEntry> i8_kernels() {
  std::vector<I8KernelEntry> all;
#define SG_ENTRY(ISA, TYPE, NAME) all.push_back({#ISA, #NAME, SG_##TYPE, sg_i8_##NAME##_##ISA()});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni")) {
    SG_FOR_TYPES(SG_ENTRY, avx512)
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    SG_FOR_TYPES(SG_ENTRY, avx2)
  }
  return all;
}

}  // namespace scalegemm::kernels
