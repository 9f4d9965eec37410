// A hash of the words that make up a problem.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tilesmith {

/// Folded 128-bit products: every input bit reaches every output bit in one multiplication.
[[nodiscard]] inline std::uint64_t hash_words(std::initializer_list<std::uint64_t> words) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    const auto product = static_cast<unsigned __int128>(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  return hash;
}

}  // namespace tilesmith
