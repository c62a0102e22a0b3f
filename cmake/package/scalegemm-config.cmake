# find_package(scalegemm): the library as scalegemm::scalegemm, the program as scalegemm::program, and
# scalegemm_add_bundle().
include("${CMAKE_CURRENT_LIST_DIR}/scalegemm-targets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/scalegemm_add_bundle.cmake")
