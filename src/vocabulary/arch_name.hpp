// The name of an architecture (x86_64_v4, sm_90a, gfx950): a value type, because which architectures exist is a fact in
// specs/, not code.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

class ArchName {
 public:
  static constexpr std::size_t kMaxLength = 23;

  constexpr ArchName() = default;

  /// `text` over [a-z0-9_], at most kMaxLength characters.
  [[nodiscard]] static Result<ArchName> parse(std::string_view text);

  [[nodiscard]] std::string_view text() const { return {text_.data(), length_}; }
  [[nodiscard]] bool empty() const { return length_ == 0; }

  friend bool operator==(const ArchName&, const ArchName&) = default;
  friend auto operator<=>(const ArchName&, const ArchName&) = default;

 private:
  std::array<char, kMaxLength> text_{};
  unsigned char length_ = 0;
};

}  // namespace tilesmith
