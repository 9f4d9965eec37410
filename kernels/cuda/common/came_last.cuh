// How the last of several teams of threads finds out that it is the last: for partial results that it alone joins, so
// that no team ever waits for another.
#pragma once

#include "common.cuh"

namespace ts {

// Counts this team's partial; true in all its threads when it was the last of `count`, whose memory they then see. The
// one thread that counts releases what all have written, and acquires what the others' have: with barriers around it that
// holds for all (memory model of PTX, causality order), and no other thread waits for a fence.
template <class Sync>
TS_DEVICE bool came_last(u32* counter, int count, int thread, u32 flag, Sync sync) {
  sync();
  if (thread == 0) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    const u32 last = before == static_cast<u32>(count) - 1;
    if (last) *counter = 0;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(flag), "r"(last) : "memory");
  }
  sync();
  u32 last;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
  return last;
}

}  // namespace ts
