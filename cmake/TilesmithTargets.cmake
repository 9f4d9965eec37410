# How every target of the project is built: one set of warnings, one way to name a station and its tests.

add_library(tilesmith_options INTERFACE)
target_compile_options(tilesmith_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                                                   -Woverloaded-virtual)
if(TILESMITH_WARNINGS_AS_ERRORS)
  target_compile_options(tilesmith_options INTERFACE -Werror)
endif()
if(TILESMITH_SANITIZE)
  add_compile_options(-fsanitize=${TILESMITH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TILESMITH_SANITIZE})
endif()

# tilesmith_station(NAME [SOURCES ...] [USES station ...] [LINK target ...])
# One station of the road: a static library tilesmith_NAME whose headers are included as "NAME/header.hpp". Without SOURCES it takes every
# .cpp of its folder.
function(tilesmith_station name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINK" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  add_library(tilesmith_${name} STATIC ${ARG_SOURCES})
  target_include_directories(tilesmith_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(tilesmith_${name} PRIVATE $<BUILD_INTERFACE:tilesmith_options>)
  tilesmith_precompile(tilesmith_${name} station)
  foreach(used ${ARG_USES})
    target_link_libraries(tilesmith_${name} PUBLIC tilesmith_${used})
  endforeach()
  target_link_libraries(tilesmith_${name} PUBLIC ${ARG_LINK})
endfunction()

# tilesmith_test(NAME SOURCES ... USES station ... [LABELS label ...])
# One GoogleTest program, registered with CTest test by test.
function(tilesmith_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;USES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE tilesmith_options fmt::fmt GTest::gtest_main ${ARG_LINK})
  tilesmith_precompile(${name} test)
  foreach(used ${ARG_USES})
    target_link_libraries(${name} PRIVATE tilesmith_${used})
  endforeach()
  target_compile_definitions(${name} PRIVATE TILESMITH_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TILESMITH_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
