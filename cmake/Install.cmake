# The installed form: one shared library with everything inside, the public headers, a CMake package and the program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Whole stations go in whose public functions nothing inside calls; the rest follows as needed.
add_library(tilesmith SHARED $<TARGET_OBJECTS:tilesmith_capi> $<TARGET_OBJECTS:tilesmith_dispatch> $<TARGET_OBJECTS:tilesmith_base>)
add_library(tilesmith::tilesmith ALIAS tilesmith)
set_target_properties(tilesmith PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME tilesmith)
target_link_options(tilesmith PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(tilesmith PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_libraries(tilesmith PRIVATE $<BUILD_INTERFACE:tilesmith_options> $<BUILD_INTERFACE:tilesmith_capi>)
target_include_directories(tilesmith PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(tilesmith PUBLIC cxx_std_23)

install(TARGETS tilesmith EXPORT tilesmith_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TILESMITH_PROGRAM)
  install(TARGETS tilesmith_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tilesmith_targets NAMESPACE tilesmith:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilesmith)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilesmithConfig.cmake.in ${PROJECT_BINARY_DIR}/tilesmithConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilesmith)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilesmithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilesmithConfig.cmake ${PROJECT_BINARY_DIR}/tilesmithConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilesmith)
