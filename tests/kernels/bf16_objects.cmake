# The bf16 dot kernels as objects, for bf16_gemm_test.
set(SCALEGEMM_CPU_FLAGS_avx512bf16 ${SCALEGEMM_CPU_FLAGS_avx512} -mavx512vbmi -mavx512bf16)
add_library(scalegemm_bf16_kernels INTERFACE)
foreach(TYPE BF16 E4M3 E4M3_FNUZ E5M2 E5M2_FNUZ E2M1 INT8 INT4 UINT4)
  string(TOLOWER ${TYPE} NAME)
  scalegemm_kernel_object(bf16_kernel_${NAME} avx512bf16 ${CMAKE_CURRENT_LIST_DIR}/bf16_kernel_tu.cc
    SG_TEST_TYPE=SG_${TYPE} SG_TEST_SYMBOL=sg_bf16_${NAME} SG_TEST_NAME="bf16_${NAME}")
  target_link_libraries(scalegemm_bf16_kernels INTERFACE $<TARGET_OBJECTS:bf16_kernel_${NAME}>)
endforeach()
