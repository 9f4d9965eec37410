# The library inside a Python wheel: one file beside the package, without the version links a wheel cannot hold, and with what a machine may lack.
# OpenSSL's SHA-256 is linked in, so that it meets no other OpenSSL of the process. A libfmt that is not
# compiled in (cmake/Dependencies.cmake) comes as a file, found by RPATH.
# libstdc++ and libc stay the system's: the wheel runs where they are at least as new as where it was built.
set_target_properties(tilesmith PROPERTIES VERSION "" SOVERSION "" NO_SONAME ON INSTALL_RPATH "$ORIGIN")
target_link_options(tilesmith PRIVATE -Wl,--gc-sections)

install(TARGETS tilesmith LIBRARY DESTINATION tilesmith COMPONENT wheel)
if(NOT tilesmith_fmt_inside)
  install(FILES $<TARGET_FILE:fmt::fmt> DESTINATION tilesmith RENAME $<TARGET_SONAME_FILE_NAME:fmt::fmt> COMPONENT wheel)
endif()
