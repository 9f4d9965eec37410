// Whether some key of a piece lies in no page: producers, who look all pages up, tell consumers. To look them up once more
// would take consumers longer than a step where a page has one key.
//
// Needs of a layout: kLostOffset, kLostAreKnown and behind it kLostOfNextAreKnown.
#pragma once

#include "key_layout.cuh"

namespace ts {

// Both sides pass over the same pieces of a block, and producers get the number of a piece only when consumers are done
// with the last but one (teams.cuh): so two places are enough.
class LostKeys {
 public:
  // By the producers' first warp.
  TS_DEVICE void tell(u32 shared, bool lost_by_lane) {
    const int lost = __any_sync(0xffffffffu, lost_by_lane);
    if (threadIdx.x % 32 == 0) asm volatile("st.shared.b32 [%0], %1;" ::"r"(place(shared)), "r"(lost) : "memory");
    __syncwarp();
    named_barrier_arrive(kLostAreKnown + next_, kThatMeet);
    next_ ^= 1;
  }
  // By all consumers.
  TS_DEVICE bool hear(u32 shared) {
    named_barrier_sync(kLostAreKnown + next_, kThatMeet);
    int lost;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(lost) : "r"(place(shared)) : "memory");
    next_ ^= 1;
    return lost != 0;
  }

 private:
  static constexpr int kThatMeet = kConsumerThreads + 32;

  TS_DEVICE u32 place(u32 shared) const { return shared + kLostOffset + 8 * next_; }

  int next_ = 0;
};

}  // namespace ts
