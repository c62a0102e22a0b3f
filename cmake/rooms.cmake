# scalegemm_room(NAME ROOMS <rooms it may use> USES <libraries>)
#
# One static library a room. Its headers are reached as "NAME/header.h" through a private include folder
# that holds nothing else, so a room can include only rooms named in ROOMS (cmake/check_includes.py also
# refuses an include of a room that is reached only through another one).
function(scalegemm_room NAME)
  cmake_parse_arguments(ROOM "" "" "ROOMS;USES" ${ARGN})
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cc)
  if(NOT SOURCES)
    add_library(scalegemm_${NAME} INTERFACE)
    set(SCOPE INTERFACE)
  else()
    add_library(scalegemm_${NAME} STATIC ${SOURCES})
    set(SCOPE PUBLIC)
    scalegemm_compile_options(scalegemm_${NAME})
  endif()
  set(ROOT ${CMAKE_BINARY_DIR}/rooms/${NAME})
  file(MAKE_DIRECTORY ${ROOT})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${NAME} ${ROOT}/${NAME} SYMBOLIC)
  target_include_directories(scalegemm_${NAME} ${SCOPE} ${ROOT})
  foreach(OTHER ${ROOM_ROOMS})
    target_link_libraries(scalegemm_${NAME} ${SCOPE} scalegemm_${OTHER})
  endforeach()
  target_link_libraries(scalegemm_${NAME} ${SCOPE} ${ROOM_USES})
endfunction()

# Warnings and sanitizers of every target of ours.
function(scalegemm_compile_options TARGET)
  target_compile_options(${TARGET} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
    -Wold-style-cast -Wcast-align -Woverloaded-virtual -Wconversion -Wno-sign-conversion)
  if(SCALEGEMM_WERROR)
    target_compile_options(${TARGET} PRIVATE -Werror)
  endif()
  if(SCALEGEMM_SANITIZE)
    target_compile_options(${TARGET} PUBLIC -fsanitize=${SCALEGEMM_SANITIZE} -fno-omit-frame-pointer -g)
    target_link_options(${TARGET} PUBLIC -fsanitize=${SCALEGEMM_SANITIZE})
  endif()
endfunction()

# scalegemm_test(NAME SOURCES <files> LINK <libraries>): a GoogleTest program known to ctest.
function(scalegemm_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${NAME} ${TEST_SOURCES})
  scalegemm_compile_options(${NAME})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/kernels)
  target_compile_definitions(${NAME} PRIVATE SCALEGEMM_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             SCALEGEMM_BUILD_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${NAME} PRIVATE ${TEST_LINK} GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND ${NAME})
  # What a test could not do on this machine is not passed: ./check refuses skipped tests.
  set_tests_properties(${NAME} PROPERTIES SKIP_REGULAR_EXPRESSION "NOT TESTED")
endfunction()
