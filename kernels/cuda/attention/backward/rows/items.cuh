// The producer draws the items and hands their numbers to the consumers through a ring in shared memory.
#pragma once

#include "../../hopper/ring_place.cuh"
#include "layout.cuh"

namespace ts {

using Item = ItemOfRows<kRows, kStep, kPaired>;

struct ItemRing {
  RingPlace<kItemSlots> place;

  TS_DEVICE void push(const Shared& shared, int index) {
    mbarrier_wait(shared.item_empty(place.index), place.phase ^ 1);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared.item(place.index)), "r"(index) : "memory");
    mbarrier_arrive(shared.item_full(place.index));
    place.advance();
  }
  // A negative number ends the work.
  TS_DEVICE int pop(const Shared& shared) {
    mbarrier_wait(shared.item_full(place.index), place.phase);
    int index;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(index) : "r"(shared.item(place.index)) : "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.item_empty(place.index));
    place.advance();
    return index;
  }
};

}  // namespace ts
