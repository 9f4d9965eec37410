// What every public header needs: a compiler that is new enough, and the mark of what the library exports.
#pragma once

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#ifndef __cpp_lib_expected
#error "Tilesmith's C++ headers need C++23 with std::expected: GCC 12, Clang 16 with libc++, or newer"
#endif

#define TILESMITH_API __attribute__((visibility("default")))
