// One kernel translation unit, as the generator writes them; compiled for every type of B.
#include "cpu/bf16_gemm.h"

SG_CPU_KERNEL(SG_TEST_SYMBOL, SG_TEST_NAME, scalegemm_kernel::Bf16Gemm<SG_TEST_TYPE>)
