# Installs the build, and configures, builds and runs the consumer against what is installed.
#   cmake -D BUILD=<build folder> -D GENERATOR=<generator> -D SOURCE=<this folder> -D WORK=<folder> -P run.cmake
cmake_policy(VERSION 3.25)
file(REMOVE_RECURSE ${WORK}/install ${WORK}/build ${WORK}/component ${WORK}/source)
file(COPY ${SOURCE}/ DESTINATION ${WORK}/source)
set(SOURCE ${WORK}/source)
set(ENV{SCALEGEMM_CACHE_DIR} ${WORK}/cache)

# succeeds(<what> <command>...), fails(<what> <text that must be printed> <command>...)
function(run RESULT OUTPUT)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE CODE OUTPUT_VARIABLE TEXT ERROR_VARIABLE TEXT)
  set(${RESULT} "${CODE}" PARENT_SCOPE)
  set(${OUTPUT} "${TEXT}" PARENT_SCOPE)
endfunction()
function(succeeds WHAT)
  run(CODE TEXT ${ARGN})
  if(NOT CODE EQUAL 0)
    message(FATAL_ERROR "${WHAT}: exit code ${CODE}\n${TEXT}")
  endif()
  message(STATUS "${WHAT}: ok")
endfunction()
function(fails WHAT NEEDED)
  run(CODE TEXT ${ARGN})
  string(REGEX REPLACE "[ \n]+" " " FLAT "${TEXT}")  # CMake wraps its messages
  string(FIND "${FLAT}" "${NEEDED}" AT)
  if(CODE EQUAL 0 OR AT EQUAL -1)
    message(FATAL_ERROR "${WHAT}: needed a failure that says '${NEEDED}', exit code ${CODE}\n${TEXT}")
  endif()
  message(STATUS "${WHAT}: refused as it should be")
endfunction()

succeeds("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/install)
succeeds("configure" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build
         -D CMAKE_PREFIX_PATH=${WORK}/install)
if(EXISTS ${WORK}/build/acme_bundle/lib)
  message(FATAL_ERROR "the bundle was built while the project was configured")
endif()
foreach(PROGRAM shared_consumer static_consumer library_consumer)
  succeeds("build ${PROGRAM}" ${CMAKE_COMMAND} --build ${WORK}/build --target ${PROGRAM})
  succeeds("run ${PROGRAM}" ${WORK}/build/${PROGRAM})
endforeach()
fails("a kernel that is not in the bundle" "not supported: no kernel of" ${WORK}/build/shared_consumer none:a=f16)
fails("the reason" "built in: needed a kernel that this library holds; got gemm_"
      ${WORK}/build/static_consumer none:a=f16)
fails("a target that there is not" "--target: targets: needs some of x86-64-v3"
      ${CMAKE_COMMAND} --build ${WORK}/build --target wrong_build)
fails("a target that is not in the bundle"
      "the bundle has no kernels for sm_90a, only for x86-64-v3: add the target to its manifest"
      ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/component -B ${WORK}/component
      -D CMAKE_PREFIX_PATH=${WORK}/build/acme_bundle)

# An edited manifest builds the bundle again; an untouched one does not.
function(build_again WANTED)
  file(TIMESTAMP ${WORK}/build/acme_bundle.stamp BEFORE "%s")
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1)
  if(WANTED STREQUAL "edited")
    file(APPEND ${SOURCE}/acme.toml "# edited\n")
  endif()
  succeeds("build with the manifest ${WANTED}" ${CMAKE_COMMAND} --build ${WORK}/build --target shared_consumer)
  file(TIMESTAMP ${WORK}/build/acme_bundle.stamp AFTER "%s")
  if((BEFORE EQUAL AFTER AND WANTED STREQUAL "edited") OR (NOT BEFORE EQUAL AFTER AND WANTED STREQUAL "untouched"))
    message(FATAL_ERROR "the manifest was ${WANTED}; the bundle was built at ${BEFORE}, then at ${AFTER}")
  endif()
endfunction()
build_again(untouched)
build_again(edited)
