// The columns a filter sees: every field of the operation's signature and of the algorithm under its own name, the
// figures of arrays one by one, and the names Composable Kernel's users know.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary/config.hpp"
#include "vocabulary/field_table.hpp"

namespace tilesmith {

struct FilterColumn {
  enum class Source : std::uint8_t { signature, algorithm, arch, operation, origin, name, layout };

  std::string name;
  Source source = Source::signature;
  const FieldInfo* field = nullptr;  ///< of signature and algorithm columns
  int element = -1;                  ///< of an array; -1 for all figures joined by x
};

/// Own names first, then aliases.
[[nodiscard]] const std::vector<FilterColumn>& filter_columns(Operation operation);

[[nodiscard]] const FilterColumn* find_filter_column(Operation operation, std::string_view name);

/// A column's value: text when `is_text`, else a number. The text lives until the next call for the same buffer.
struct FilterValue {
  bool is_text = false;
  std::int64_t number = 0;
  std::string_view text;
};
[[nodiscard]] FilterValue filter_value(const FilterColumn& column, const KernelConfig& config, std::string& buffer);

}  // namespace tilesmith
