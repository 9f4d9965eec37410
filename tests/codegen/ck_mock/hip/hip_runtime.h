// A stand-in for HIP's header.
#pragma once

#include <cstddef>

inline int hipMemsetAsync(void*, int, std::size_t, void*) {
  return 0;
}
