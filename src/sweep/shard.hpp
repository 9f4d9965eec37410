// One of N equal parts of a set of shapes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

/// Which part a shape belongs to depends on its identifying text alone.
struct Shard {
  std::uint64_t index = 1, count = 1;  ///< index from 1 to count

  /// "2/8".
  [[nodiscard]] static Result<Shard> parse(std::string_view text);
  [[nodiscard]] bool has(std::string_view id) const;
};

}  // namespace tilesmith
