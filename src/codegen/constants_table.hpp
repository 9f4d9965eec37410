// The table of a GPU template: constexpr values in namespace ts::cfg.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith {

class ConstantsTable {
 public:
  void add(std::string_view name, std::same_as<bool> auto value) {
    text_ += fmt::format("constexpr bool {} = {};\n", name, value);
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) void add(std::string_view name, T value) {
    text_ += fmt::format("constexpr int {} = {};\n", name, value);
  }
  /// An array of at least one element: an empty one gets a 0.
  void add(std::string_view name, const std::vector<int>& values) {
    text_ += values.empty() ? fmt::format("constexpr int {}[] = {{0}};\n", name)
                            : fmt::format("constexpr int {}[] = {{{}}};\n", name, fmt::join(values, ", "));
  }
  [[nodiscard]] std::string text() const { return "namespace ts::cfg {\n" + text_ + "}  // namespace ts::cfg\n"; }

 private:
  std::string text_;
};

}  // namespace tilesmith
