// Stores of octets: eight neighbouring channels of a pixel, of 16 bits each.
#pragma once

#include "depthwise/steps.cuh"
#include "store_if.cuh"

namespace ts::conv {

// Lanes of a quad have a word of each of four octets, and get an octet each.
TS_DEVICE void exchange_octets(u32 (&words)[4]) {
  pair_exchange(words[0], words[1]);
  pair_exchange(words[2], words[3]);
  const bool later = lane() & 2;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const u32 received = __shfl_xor_sync(0xffffffffu, later ? words[e] : words[2 + e], 2);
    words[e] = later ? received : words[e];
    words[2 + e] = later ? words[2 + e] : received;
  }
}

TS_DEVICE void store_16_bytes(void* p, const u32 (&words)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

}  // namespace ts::conv
