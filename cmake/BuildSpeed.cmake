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

# tilesmith_unite(TARGET)
# Sources of one folder and one device are compiled together. Devices and operations have helpers of the same names, which is why others are not.
function(tilesmith_unite target)
  if(NOT TILESMITH_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(count 0)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH group)
    cmake_path(GET path FILENAME name)
    string(REGEX MATCH "^(cpu|cuda|hip|ck)[_.]" device ${name})
    math(EXPR batch "${count} / 6")
    string(MAKE_C_IDENTIFIER "${group}_${device}" group)
    if(NOT device)
      string(APPEND group ${batch})
    endif()
    set_source_files_properties(${path} PROPERTIES UNITY_GROUP ${group})
    math(EXPR count "${count} + 1")
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
  target_link_libraries(tilesmith_precompiled_station PRIVATE tilesmith_options fmt::fmt)
  target_precompile_headers(tilesmith_precompiled_station PRIVATE ${tilesmith_headers})
  if(TILESMITH_TESTS)
    # Tests are programs: their code is position-independent in another way.
    add_library(tilesmith_precompiled_test STATIC ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_compile_options(tilesmith_precompiled_test PRIVATE -O0 -fPIE)
    target_link_libraries(tilesmith_precompiled_test PRIVATE tilesmith_options fmt::fmt GTest::gtest)
    target_precompile_headers(tilesmith_precompiled_test PRIVATE ${tilesmith_headers} <set> <thread> <gtest/gtest.h>)
  endif()
endif()
