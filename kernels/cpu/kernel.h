// How a kernel translation unit exports its table, and the name that keeps two ISA builds of one template
// apart.
//
// A generated translation unit is three lines:
//
//   #include "cpu/<family>_gemm.h"
//   SG_CPU_KERNEL(<symbol>, "<KernelSpec name>", <family class, fully instantiated>)
//
// A family is a class with the static functions of SgCpuKernel. The table is reached by dlsym (JIT,
// bundles) or by its extern "C" name (built-in kernels): `const SgCpuKernel* symbol(void)`.
#ifndef SCALEGEMM_KERNELS_CPU_KERNEL_H_
#define SCALEGEMM_KERNELS_CPU_KERNEL_H_

#include "cpu/abi.h"

// The ISA is what the compiler was told, never a macro of ours: every template lives in an inline namespace
// of that name, so objects built for different ISAs link into one program without sharing a symbol.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && \
    defined(__AVX512VNNI__)
#define SG_CPU_AVX512 1
#if defined(__AVX512BF16__)
#define SG_CPU_ISA avx512bf16
#else
#define SG_CPU_ISA avx512
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SG_CPU_AVX512 0
#define SG_CPU_ISA avx2
#else
#error "compile CPU kernels with -march=x86-64-v3, or that and -mavx512{f,bw,vl,dq,vnni}"
#endif

#define SG_CPU_EXPORT __attribute__((visibility("default")))

#define SG_CPU_KERNEL(SYMBOL, NAME, ...)                                                 \
  extern "C" SG_CPU_EXPORT const SgCpuKernel* SYMBOL(void);                              \
  extern "C" const SgCpuKernel* SYMBOL(void) {                                           \
    using Family = __VA_ARGS__;                                                          \
    static const SgCpuKernel kernel = {SG_CPU_ABI_VERSION,       NAME,                   \
                                       &Family::workspace_bytes, &Family::scratch_bytes, \
                                       &Family::prepare_units,   &Family::prepare,       \
                                       &Family::compute_units,   &Family::compute};      \
    return &kernel;                                                                      \
  }

#endif  // SCALEGEMM_KERNELS_CPU_KERNEL_H_
