// The producer draws the items and hands them to the consumers through a ring in shared memory. To work out an item from its
// number takes more registers than the consumers have to spare.
#pragma once

#include "../../hopper/ring_place.cuh"
#include "layout.cuh"

namespace ts {

using Item = ItemOfRows<kRows, kStep, kPaired>;

struct ItemRing {
  RingPlace<kItemSlots> place;

  TS_DEVICE void push(const Shared& shared, const Item& t) {
    push(shared, t.batch, t.head, t.row, static_cast<int>(t.gradient) | t.section << 2);
  }
  // No more will come.
  TS_DEVICE void end(const Shared& shared) { push(shared, -1, 0, 0, 0); }
  // False at the end of the work.
  TS_DEVICE bool pop(const Shared& shared, const TsCudaAttentionBackwardArgs& args, Item& t) {
    mbarrier_wait(shared.item_full(place.index), place.phase);
    int kind;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.batch), "=r"(t.head), "=r"(t.row), "=r"(kind)
                 : "r"(shared.item(place.index))
                 : "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.item_empty(place.index));
    place.advance();
    if (t.batch < 0) return false;
    t.gradient = static_cast<Gradient>(kind & 3);
    t.section = kind >> 2;
    t.see(args);
    return true;
  }

 private:
  TS_DEVICE void push(const Shared& shared, int batch, int head, int row, int kind) {
    mbarrier_wait(shared.item_empty(place.index), place.phase ^ 1);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared.item(place.index)), "r"(batch), "r"(head),
                 "r"(row), "r"(kind)
                 : "memory");
    mbarrier_arrive(shared.item_full(place.index));
    place.advance();
  }
};

}  // namespace ts
