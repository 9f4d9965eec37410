# Included after project() when tools/make_wheel.sh builds with zig's C++ compiler, whose own headers are those of the C library it builds for.
# The system's folder of headers, which packages name as theirs, holds this machine's C library too: it is left out as the compiler's own
# are, and the script gives the packages' headers in a folder of links.
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu) # where Debian keeps the packages' CMake files and archives
