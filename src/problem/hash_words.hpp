// A hash of words.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tilesmith {

/// The hash of what was hashed before and of one more word. A folded 128-bit product: every input bit reaches every
/// output bit in one multiplication.
[[nodiscard]] inline std::uint64_t mixed_hash(std::uint64_t hash, std::uint64_t word) {
  const auto product = static_cast<unsigned __int128>(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

[[nodiscard]] inline std::uint64_t hash_words(std::initializer_list<std::uint64_t> words) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) hash = mixed_hash(hash, word);
  return hash;
}

}  // namespace tilesmith
