#include "vocabulary/enum_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.hpp"

namespace tilesmith::detail {

Error unknown_name(std::string_view what, std::string_view given, const std::vector<std::string>& known) {
  std::string hint = fmt::format("known: {}", fmt::join(known, ", "));
  if (const auto near = nearest_names(given, known, 1); !near.empty())
    hint = fmt::format("did you mean {}? {}", near.front(), hint);
  return {ErrorCode::invalid_argument, fmt::format("\"{}\" is no {}", given.substr(0, 64), what), std::move(hint)};
}

}  // namespace tilesmith::detail
