// Elements of 8 bits as 16-bit ones: every e4m3 and every int8 is a bf16 and an fp16.
#pragma once

#include "layout.h"

namespace ts {

// A chunk of eight elements as it lies in memory.
template <int kElementBytes>
struct ChunkOf {
  typedef u32 Type __attribute__((vector_size(8 * kElementBytes)));
};
using KeyChunk = ChunkOf<kKeyElementBytes>::Type;

TS_DEVICE float widened(u32 bits) {
  if constexpr (cfg::kCacheInt8) return static_cast<float>(static_cast<signed char>(bits));
  // The bits of an fp16 that is 2^8 times smaller: its exponent is one bit longer, and its bias 15 in place of 7. All
  // bits but the sign set are NaN.
  const u32 magnitude = bits & 0x7f;
  const float value = from_f16(static_cast<u16>((bits & 0x80) << 8 | magnitude << 7)) * 256.0f;
  return magnitude == 0x7f ? __builtin_nanf("") : value;
}

TS_DEVICE Words4 widen(const ChunkOf<2>::Type& words) {
  return words;
}
TS_DEVICE Words4 widen(const ChunkOf<1>::Type& words) {
  Words4 wide;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const u32 pair = words[w / 2] >> 16 * (w % 2);
    wide[w] = pack<cfg::kBf16>(widened(pair & 0xff), widened(pair >> 8 & 0xff));
  }
  return wide;
}

}  // namespace ts
