#include "sweep/shard.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/sha256.hpp"

namespace tilesmith {

Result<Shard> Shard::parse(std::string_view text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto [slash, first] = std::from_chars(text.data(), end, shard.index);
  if (first == std::errc{} && slash != end && *slash == '/') {
    const auto [last, second] = std::from_chars(slash + 1, end, shard.count);
    if (second == std::errc{} && last == end && shard.index >= 1 && shard.index <= shard.count) return shard;
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no shard", text),
              "I/N with I from 1 to N, for example 1/4");
}

bool Shard::has(std::string_view id) const {
  return count == 1 || key128(id).lo % count == index - 1;
}

}  // namespace tilesmith
