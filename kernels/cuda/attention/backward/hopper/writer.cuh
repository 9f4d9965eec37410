// The writer threads of ordered additions, one for each consumer warpgroup: each adds what its warpgroup has of dq to memory
// when it is its turn, so that the warpgroup does not wait.
#pragma once

#include "layout.cuh"

namespace ts {

// Where a part of dq goes; null ends the work. It lies in shared memory beside the part.
struct Destination {
  float* sum;
  unsigned* turns;  // of the tile: how many blocks have added
  unsigned turn;    // how many add before

  TS_DEVICE void put(u32 place) const {
    asm volatile("st.shared.u64 [%0], %1; st.shared.u64 [%0 + 8], %2; st.shared.u32 [%0 + 16], %3;" ::"r"(place), "l"(sum),
                 "l"(turns), "r"(turn)
                 : "memory");
  }
  TS_DEVICE void get(u32 place) {
    asm volatile("ld.shared.u64 %0, [%3]; ld.shared.u64 %1, [%3 + 8]; ld.shared.u32 %2, [%3 + 16];"
                 : "=l"(sum), "=l"(turns), "=r"(turn)
                 : "r"(place)
                 : "memory");
  }
};

TS_DEVICE void write_dq(const Shared& shared, int warpgroup) {
  RingPlace<kDqBuffers> buffer;
  Destination to;
  while (true) {
    const u32 part = buffer.index * kWarpgroups + warpgroup;
    mbarrier_wait(shared.dq_full(part), buffer.phase);
    to.get(shared.place(part));
    if (to.sum == nullptr) break;
    constexpr u32 kBytes = kDqBytes / kWarpgroups;
    if (to.turn == 0) {  // nobody has zeroed the tile
      bulk_store(to.sum, shared.dq(part), kBytes);
    } else {
      wait_for_value(to.turns, to.turn);
      bulk_add(to.sum, shared.dq(part), kBytes);
    }
    bulk_wait();
    mbarrier_arrive(shared.dq_empty(part));
    count_up(to.turns);
    buffer.advance();
  }
}

}  // namespace ts
