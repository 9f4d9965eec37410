// How the last of several teams of threads finds out that it is the last: for partial results that it alone joins, so
// that no team ever waits for another.
#pragma once

#include "common.cuh"

namespace ts {

// Counts this team's partial; true in all its threads when it was the last of `count`, whose memory they then see.
template <class Sync>
TS_DEVICE bool came_last(u32* counter, int count, int thread, u32 flag, Sync sync) {
  __threadfence();
  sync();
  if (thread == 0) {
    const u32 before = atomicAdd(counter, 1u);
    const u32 last = before == static_cast<u32>(count) - 1;
    if (last) *counter = 0;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(flag), "r"(last) : "memory");
  }
  sync();
  u32 last;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
  if (last) __threadfence();
  return last;
}

}  // namespace ts
