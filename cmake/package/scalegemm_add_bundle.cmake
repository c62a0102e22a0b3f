# scalegemm_add_bundle(<target> MANIFEST <file> NAMESPACE <namespace>
#                      [STATIC] [TARGETS <target>...] [OPTIONS <option of scalegemm build>...])
#
# A bundle (docs/bundles.md) as a library to link: <target>, with its headers as <namespace>/scalegemm.h. It is made
# when the project is built, and again when the manifest or scalegemm changes; nothing runs while the project is
# configured. NAMESPACE and TARGETS overrule what the manifest says. The whole bundle, to install or ship, is in
# the folder that the property SCALEGEMM_BUNDLE_FOLDER of <target> names.
function(scalegemm_add_bundle TARGET)
  cmake_parse_arguments(BUNDLE "STATIC" "MANIFEST;NAMESPACE" "TARGETS;OPTIONS" ${ARGN})
  if(BUNDLE_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "scalegemm_add_bundle(${TARGET}): unknown arguments ${BUNDLE_UNPARSED_ARGUMENTS}")
  endif()
  foreach(NEEDED MANIFEST NAMESPACE)
    if(NOT BUNDLE_${NEEDED})
      message(FATAL_ERROR "scalegemm_add_bundle(${TARGET}): needs ${NEEDED}")
    endif()
  endforeach()
  get_filename_component(MANIFEST "${BUNDLE_MANIFEST}" ABSOLUTE)
  if(NOT EXISTS "${MANIFEST}")
    message(FATAL_ERROR "scalegemm_add_bundle(${TARGET}): MANIFEST: there is no file ${MANIFEST}")
  endif()
  set(KIND SHARED)
  set(WORD shared)
  set(ENDING .so)
  if(BUNDLE_STATIC)
    set(KIND STATIC)
    set(WORD static)
    set(ENDING .a)
  endif()
  set(FOLDER "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_bundle")
  set(FILE "lib${BUNDLE_NAMESPACE}_scalegemm${ENDING}")
  set(OPTIONS --namespace ${BUNDLE_NAMESPACE} --library ${WORD})
  foreach(WANTED IN LISTS BUNDLE_TARGETS)
    list(APPEND OPTIONS --target ${WANTED})
  endforeach()
  if(CMAKE_CXX_COMPILER)
    list(APPEND OPTIONS --compiler ${CMAKE_CXX_COMPILER})
  endif()
  set(STAMP "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_bundle.stamp")
  add_custom_command(
    OUTPUT "${STAMP}"
    BYPRODUCTS "${FOLDER}/lib/${FILE}"
    COMMAND scalegemm::program build "${MANIFEST}" -o "${FOLDER}" ${OPTIONS} ${BUNDLE_OPTIONS}
    COMMAND "${CMAKE_COMMAND}" -E touch "${STAMP}"
    DEPENDS "${MANIFEST}" "$<TARGET_FILE:scalegemm::program>"
    COMMENT "Building the bundle ${TARGET}"
    VERBATIM)
  add_custom_target(${TARGET}_build DEPENDS "${STAMP}")

  file(MAKE_DIRECTORY "${FOLDER}/include")  # an include folder must be there while the project is configured
  add_library(${TARGET} ${KIND} IMPORTED GLOBAL)
  set_target_properties(${TARGET} PROPERTIES
    IMPORTED_LOCATION "${FOLDER}/lib/${FILE}"
    INTERFACE_INCLUDE_DIRECTORIES "${FOLDER}/include"
    SCALEGEMM_BUNDLE_FOLDER "${FOLDER}")
  if(BUNDLE_STATIC)
    find_package(Threads REQUIRED)
    set_target_properties(${TARGET} PROPERTIES
      IMPORTED_LINK_INTERFACE_LANGUAGES CXX
      INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
  else()
    set_target_properties(${TARGET} PROPERTIES IMPORTED_SONAME ${FILE})
  endif()
  add_dependencies(${TARGET} ${TARGET}_build)
endfunction()
