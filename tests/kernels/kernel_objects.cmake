# The CPU kernels as object libraries for tests, with the flags of the generator.
set(SCALEGEMM_CPU_FLAGS_avx2 -march=x86-64-v3)
set(SCALEGEMM_CPU_FLAGS_avx512 -march=x86-64-v3 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)

# At -O3 the instrumented kernels take minutes to compile.
set(SCALEGEMM_KERNEL_LEVEL -O3)
if(SCALEGEMM_SANITIZE)
  set(SCALEGEMM_KERNEL_LEVEL -O1)
endif()

# scalegemm_kernel_object(TARGET ISA SOURCE DEFINITIONS): contraction is explicit in kernels, so it is off.
function(scalegemm_kernel_object TARGET ISA SOURCE)
  add_library(${TARGET} OBJECT ${SOURCE})
  scalegemm_compile_options(${TARGET})
  target_include_directories(${TARGET} PRIVATE ${CMAKE_SOURCE_DIR}/kernels)
  target_compile_options(${TARGET} PRIVATE ${SCALEGEMM_KERNEL_LEVEL} -ffp-contract=off ${SCALEGEMM_CPU_FLAGS_${ISA}})
  target_compile_definitions(${TARGET} PRIVATE ${ARGN})
endfunction()

# All f32 kernels behind kernels/f32_kernels.h: the static library scalegemm_f32_kernels.
if(NOT TARGET scalegemm_f32_kernels)
  add_library(scalegemm_f32_kernels STATIC ${CMAKE_CURRENT_LIST_DIR}/f32_kernels.cc)
  scalegemm_compile_options(scalegemm_f32_kernels)
  target_include_directories(scalegemm_f32_kernels PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/kernels)
  foreach(ISA avx512 avx2)
    foreach(TYPE F32 F16 BF16 E4M3 E4M3_FNUZ E5M2 E5M2_FNUZ E2M1 INT8 INT4 UINT4)
      string(TOLOWER ${TYPE} NAME)
      set(OBJECT f32_kernel_${NAME}_${ISA})
      scalegemm_kernel_object(${OBJECT} ${ISA} ${CMAKE_CURRENT_LIST_DIR}/f32_kernel_tu.cc
        SG_TEST_TYPE=SG_${TYPE} SG_TEST_SYMBOL=sg_f32_${NAME}_${ISA} SG_TEST_NAME="f32_${NAME}_${ISA}")
      target_sources(scalegemm_f32_kernels PRIVATE $<TARGET_OBJECTS:${OBJECT}>)
    endforeach()
  endforeach()
endif()
