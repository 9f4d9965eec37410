// Digests: the whole identity of stored bytes (SHA-256, 32 bytes) and the short key that names things in tables and
// files (its first 16 bytes).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

using Sha256 = std::array<std::uint8_t, 32>;

[[nodiscard]] Sha256 sha256(std::string_view bytes);
/// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(const Sha256& digest);

/// A stable 128-bit key. Ordered and printed as one big-endian number: hi first.
struct Key128 {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;

  auto operator<=>(const Key128&) const = default;
  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// The inverse of hex(): exactly 32 hexadecimal digits, upper or lower case.
  [[nodiscard]] static Result<Key128> parse(std::string_view hex);
};

/// The first 16 bytes of the SHA-256 of `bytes`.
[[nodiscard]] Key128 key128(std::string_view bytes);

}  // namespace tilesmith

template <>
struct std::hash<tilesmith::Key128> {
  // The key is a digest already: any 64 of its bits are a good hash.
  std::size_t operator()(const tilesmith::Key128& key) const noexcept { return key.lo; }
};
