# Most of a source's compile time is headers and templates, so a build from nothing parses them once for many sources: the headers that most files
# include are precompiled, and a target's sources are compiled a few at a time (a unity build). A compiler cache (ccache) gives more where little has
# changed; it shares nothing between build folders when headers are precompiled, and compiles less anew when sources stand alone. So it turns both
# off. Sources include what they use all the same, and a name without linkage is its target's, not its file's.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(tilesmith_from_nothing OFF)
else()
  set(tilesmith_from_nothing ON)
endif()
option(TILESMITH_PRECOMPILED_HEADERS "Precompile the headers that most files include" ${tilesmith_from_nothing})
option(TILESMITH_UNITY "Compile a target's sources several at a time" ${tilesmith_from_nothing})

# tilesmith_unite(TARGET [APART])
# A target's sources are compiled twelve at a time. APART: its devices and operations have helpers of the same names, so that only sources of one
# folder, device and operation meet.
function(tilesmith_unite target)
  cmake_parse_arguments(ARG "APART" "" "" ${ARGN})
  if(NOT TILESMITH_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
    set(group ${target})
    if(ARG_APART)
      cmake_path(GET path PARENT_PATH group)
      cmake_path(GET path FILENAME name)
      string(REGEX MATCH "^(cpu|cuda|hip|ck)[_.]" device ${name})
      string(REGEX MATCH "attention|gemm|conv" operation ${name})
      string(APPEND group "_${device}_${operation}")
    endif()
    string(MAKE_C_IDENTIFIER "${group}" group)
    if(NOT DEFINED ${group}_count)
      set(${group}_count 0)
    endif()
    math(EXPR batch "${${group}_count} / 12")
    math(EXPR ${group}_count "${${group}_count} + 1")
    set_source_files_properties(${path} PROPERTIES UNITY_GROUP ${group}_${batch})
  endforeach()
endfunction()

# tilesmith_precompile(TARGET KIND): KIND is station or test. Both are compiled alike within their kind, which is what lets them share.
function(tilesmith_precompile target kind)
  if(TILESMITH_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM tilesmith_precompiled_${kind})
  endif()
endfunction()

if(TILESMITH_PRECOMPILED_HEADERS)
  set(tilesmith_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string>
                        <string_view> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
  add_library(tilesmith_precompiled_station STATIC ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(tilesmith_precompiled_station PRIVATE tilesmith_options tilesmith_fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(tilesmith_precompiled_station PRIVATE ${tilesmith_headers} ${PROJECT_SOURCE_DIR}/src/base/json.hpp)
  if(TILESMITH_TESTS)
    # Tests are programs: their code is position-independent in another way.
    add_library(tilesmith_precompiled_test STATIC ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_compile_options(tilesmith_precompiled_test PRIVATE -O0 -fPIE)
    target_link_libraries(tilesmith_precompiled_test PRIVATE tilesmith_options fmt::fmt GTest::gtest nlohmann_json::nlohmann_json)
    # With the project's own headers that most tests include: what is left to parse of a test is a seventh less.
    set(own_headers include/tilesmith/dispatcher.hpp src/base/file.hpp src/base/json.hpp src/spec/cpu/spec.hpp src/spec/cuda/spec.hpp
                    src/verify/attention/reference.hpp src/verify/gemm/reference.hpp src/vocabulary/names/native.hpp)
    list(TRANSFORM own_headers PREPEND ${PROJECT_SOURCE_DIR}/)
    target_include_directories(tilesmith_precompiled_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_precompile_headers(tilesmith_precompiled_test PRIVATE ${tilesmith_headers} <set> <thread> <gtest/gtest.h> ${own_headers})
  endif()
endif()
