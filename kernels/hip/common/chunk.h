// Rows of 16-byte chunks: chunks from memory, whatever its alignment, and their places in local memory.
#pragma once

#include "device.h"

namespace ts {

template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = u8;
};
template <>
struct BitsOf<2> {
  using Type = u16;
};
template <>
struct BitsOf<4> {
  using Type = u32;
};

// The first `count` elements of a chunk; zeros behind them.
template <int kElementBytes>
TS_DEVICE Words4 load_part(const u8* from, int count) {
  using Element = BitsOf<kElementBytes>::Type;
  constexpr int kEach = 4 / kElementBytes;
  Words4 words = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < 16 / kElementBytes; ++e)
    if (e < count)
      words[e / kEach] |= static_cast<u32>(reinterpret_cast<const Element*>(from)[e])
                          << (8 * kElementBytes * (e % kEach));
  return words;
}

}  // namespace ts
