// Philox 4x32-10: a random number generator without state. A 128-bit counter and a 64-bit key give four 32-bit words;
// any of them can be had without those before it, so results do not depend on who computes them, on how many threads,
// in which order.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the constants are those
// of its table 2 and its key schedule (golden ratio, square root of 3 minus 1), the known answers in the tests those
// the authors publish with it.
#pragma once

#include <array>
#include <cstdint>

namespace tilesmith {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

[[nodiscard]] constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace tilesmith
