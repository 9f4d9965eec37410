# The installed form: the library, the public headers, a CMake package, a pkg-config file and the program.
include(CMakePackageConfigHelpers)

install(TARGETS ${tilesmith_libraries} EXPORT tilesmith_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TILESMITH_PROGRAM)
  install(TARGETS tilesmith_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS tilesmith_drop_in_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tilesmith)
install(EXPORT tilesmith_targets NAMESPACE tilesmith:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilesmithConfig.cmake.in ${PROJECT_BINARY_DIR}/tilesmithConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilesmithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilesmithConfig.cmake ${PROJECT_BINARY_DIR}/tilesmithConfigVersion.cmake DESTINATION ${package_folder})

# pkg-config finds the prefix from where the file lies, so that an installed tree can be moved.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_folder} OUTPUT_VARIABLE to_prefix)
set(private_libraries "")
if(NOT tilesmith_fmt_inside)
  set(private_libraries "-lfmt ")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/tilesmith.pc.in ${PROJECT_BINARY_DIR}/tilesmith.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tilesmith.pc DESTINATION ${pkgconfig_folder})
