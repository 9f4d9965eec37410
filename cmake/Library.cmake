# The library as others link it: one file with everything inside.

# Whole stations go in whose public functions nothing inside calls; the rest follows as needed.
add_library(tilesmith SHARED $<TARGET_OBJECTS:tilesmith_capi> $<TARGET_OBJECTS:tilesmith_dispatch> $<TARGET_OBJECTS:tilesmith_base>)
set_target_properties(tilesmith PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_options(tilesmith PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(tilesmith PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_libraries(tilesmith PRIVATE $<BUILD_INTERFACE:tilesmith_options> $<BUILD_INTERFACE:tilesmith_capi>)
set(tilesmith_libraries tilesmith)

# The same behind Composable Kernel's C functions (docs/drop_in.md). Scripts look for one file wherever they keep theirs, so it needs no other.
if(TILESMITH_PROGRAM)
  add_library(tilesmith_drop_in_library SHARED $<TARGET_OBJECTS:tilesmith_drop_in>)
  set_target_properties(tilesmith_drop_in_library PROPERTIES OUTPUT_NAME tilesmith_drop_in)
  target_link_options(tilesmith_drop_in_library PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/drop_in_exports.map)
  set_target_properties(tilesmith_drop_in_library PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/drop_in_exports.map)
  target_link_libraries(tilesmith_drop_in_library PRIVATE $<BUILD_INTERFACE:tilesmith_options> $<BUILD_INTERFACE:tilesmith_drop_in>)
endif()

# The archive holds every station below the C interface. What they need from outside is its users' to link, which the CMake package
# and pkg-config --static do for them.
if(TILESMITH_STATIC)
  set(objects "")
  foreach(station base vocabulary problem spec instances choose codegen essential jit runtime dispatch capi)
    list(APPEND objects $<TARGET_OBJECTS:tilesmith_${station}>)
  endforeach()
  add_library(tilesmith_static STATIC ${objects})
  set_target_properties(tilesmith_static PROPERTIES OUTPUT_NAME tilesmith LINKER_LANGUAGE CXX)
  target_link_libraries(tilesmith_static INTERFACE $<$<NOT:$<BOOL:${tilesmith_fmt_inside}>>:$<LINK_ONLY:fmt::fmt>> $<LINK_ONLY:OpenSSL::Crypto> $<LINK_ONLY:Threads::Threads> ${CMAKE_DL_LIBS})
  list(APPEND tilesmith_libraries tilesmith_static)
endif()

include(GNUInstallDirs)
foreach(library IN LISTS tilesmith_libraries)
  add_library(tilesmith::${library} ALIAS ${library})
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} PUBLIC cxx_std_23)
endforeach()
