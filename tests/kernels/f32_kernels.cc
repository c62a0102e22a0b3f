#include "kernels/f32_kernels.h"

#define SG_FOR_TYPES(X, ISA)   \
  X(ISA, F32, f32)             \
  X(ISA, F16, f16)             \
  X(ISA, BF16, bf16)           \
  X(ISA, E4M3, e4m3)           \
  X(ISA, E4M3_FNUZ, e4m3_fnuz) \
  X(ISA, E5M2, e5m2)           \
  X(ISA, E5M2_FNUZ, e5m2_fnuz) \
  X(ISA, E2M1, e2m1)           \
  X(ISA, INT8, int8)           \
  X(ISA, INT4, int4)           \
  X(ISA, UINT4, uint4)

#define SG_DECLARE(ISA, TYPE, NAME) extern "C" const SgCpuKernel* sg_f32_##NAME##_##ISA(void);
SG_FOR_TYPES(SG_DECLARE, avx512)
SG_FOR_TYPES(SG_DECLARE, avx2)

namespace scalegemm::kernels {

std::vector<F32KernelEntry> f32_kernels() {
  std::vector<F32KernelEntry> all;
#define SG_ENTRY(ISA, TYPE, NAME) all.push_back({#ISA, #NAME, SG_##TYPE, sg_f32_##NAME##_##ISA()});
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
