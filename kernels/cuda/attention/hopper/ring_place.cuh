// Where a role stands in a ring of barriers: attention forward's and backward's.
#pragma once

#include "../../common/common.cuh"

namespace ts {

// A place in a ring of barriers and the parity of its current round; it runs on from tile to tile.
template <int kSize>
struct RingPlace {
  u32 index = 0;
  u32 phase = 0;
  TS_DEVICE void advance() {
    if (kSize == 1 || ++index == kSize) {
      index = 0;
      phase ^= 1;
    }
  }
};

}  // namespace ts
