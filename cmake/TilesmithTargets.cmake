# How every target of the project is built: one set of warnings, one way to name a station and its tests.

add_library(tilesmith_options INTERFACE)
target_compile_options(tilesmith_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                                                   -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler's garbage collector starts at 128 MB by default and takes 6 to 11 % of the time of a large source; none needs 1 GB.
  target_compile_options(tilesmith_options INTERFACE --param=ggc-min-heapsize=1048576)
endif()
if(TILESMITH_WARNINGS_AS_ERRORS)
  target_compile_options(tilesmith_options INTERFACE -Werror)
endif()
if(TILESMITH_SANITIZE)
  # For a shorter build without the checks that find little here: a read through null ends the program anyway, a missing
  # return is a warning, and sizes of objects are known to optimised code alone.
  add_compile_options(-fsanitize=${TILESMITH_SANITIZE} -fno-sanitize=null,object-size,return -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TILESMITH_SANITIZE})
endif()

# tilesmith_take(NAME [LINK target ...])
# Instead of building a station: its library as another build left it.
function(tilesmith_take name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  set(library ${TILESMITH_TAKE_FROM}/lib/libtilesmith_${name}.a)
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} is to be taken from another build, which is not there: cmake --preset release && cmake --build --preset release")
  endif()
  add_library(tilesmith_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(tilesmith_${name} PROPERTIES IMPORTED_LOCATION ${library})
  list(REMOVE_ITEM ARG_LINK PRIVATE)
  target_include_directories(tilesmith_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tilesmith_${name} INTERFACE ${ARG_LINK})
endfunction()

# tilesmith_station(NAME [APART] [EXCEPT source ...] [USES station ...] [LINK target ...])
# One station of the road: a static library tilesmith_NAME of every .cpp in its folder, but EXCEPT; its headers are included as
# "NAME/header.hpp". APART as in tilesmith_unite.
function(tilesmith_station name)
  cmake_parse_arguments(ARG "APART" "" "EXCEPT;USES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(ARG_EXCEPT)
    list(REMOVE_ITEM sources ${ARG_EXCEPT})
  endif()
  if(name IN_LIST TILESMITH_TAKE)
    list(TRANSFORM ARG_USES PREPEND tilesmith_)
    tilesmith_take(${name} LINK ${ARG_USES} ${ARG_LINK})
    return()
  endif()
  add_library(tilesmith_${name} STATIC ${sources})
  target_include_directories(tilesmith_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(tilesmith_${name} PRIVATE $<BUILD_INTERFACE:tilesmith_options>)
  tilesmith_precompile(tilesmith_${name} station)
  if(ARG_APART)
    tilesmith_unite(tilesmith_${name} APART)
  else()
    tilesmith_unite(tilesmith_${name})
  endif()
  foreach(used ${ARG_USES})
    target_link_libraries(tilesmith_${name} PUBLIC tilesmith_${used})
  endforeach()
  target_link_libraries(tilesmith_${name} PUBLIC ${ARG_LINK})
endfunction()

# tilesmith_optimise(SOURCE ...)
# Tests are compiled without optimisation, since most run for less time than the compiler would take; these compute for long.
function(tilesmith_optimise)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Fifty test programs hold the same libraries: mold links one in a tenth of a second, ld in 0.7 s.
find_program(tilesmith_mold mold)
mark_as_advanced(tilesmith_mold)

# tilesmith_test(NAME [SEPARATE] SOURCES ... USES station ... [LABELS label ...])
# One GoogleTest program, registered with CTest test by test. SEPARATE: its sources have helpers of one name, so each is compiled by itself.
function(tilesmith_test name)
  cmake_parse_arguments(ARG "SEPARATE" "TIMEOUT" "SOURCES;USES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE tilesmith_options fmt::fmt GTest::gtest_main ${ARG_LINK})
  target_compile_options(${name} PRIVATE -O0)
  if(tilesmith_mold AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(${name} PRIVATE -fuse-ld=mold)
  endif()
  tilesmith_precompile(${name} test)
  if(NOT ARG_SEPARATE)
    tilesmith_unite(${name})
  endif()
  foreach(used ${ARG_USES})
    target_link_libraries(${name} PRIVATE tilesmith_${used})
  endforeach()
  target_compile_definitions(${name} PRIVATE TILESMITH_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TILESMITH_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  # A value that has no printer is printed as its bytes, with addresses that change: names are the numbers.
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
