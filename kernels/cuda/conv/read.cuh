// Channels of a pixel that are read together: cfg::kRead of 16 bits, 16 or 8 bytes; or 16 bytes of any type.
#pragma once

#include "../attention/mma_sm80/copy.cuh"

namespace ts::conv {

// From global to shared memory; zeros where nothing is there, and the address is then not read.
template <int kBytes>
TS_DEVICE void copy_read(u32 to, const void* from, bool there) {
  static_assert(kBytes == 16 || kBytes == 8);
  if constexpr (kBytes == 16)
    copy_async(to, from, there);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(there ? 8 : 0) : "memory");
}

// The same of 8 or 4 bytes, of which `there` are; the rest becomes zeros.
template <int kBytes>
TS_DEVICE void copy_read_part(u32 to, const void* from, int there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(there) : "memory");
}

}  // namespace ts::conv
