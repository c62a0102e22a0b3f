// One kernel translation unit, as the generator writes them; compiled for every (type of B, ISA).
#include "cpu/f32_gemm.h"

SG_CPU_KERNEL(SG_TEST_SYMBOL, SG_TEST_NAME, scalegemm_kernel::F32Gemm<SG_TEST_TYPE>)
