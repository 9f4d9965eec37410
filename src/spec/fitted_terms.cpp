#include "spec/fitted_terms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "spec/json_reader.hpp"

namespace tilesmith {

Status read_fitted_terms(const JsonReader& reader, std::span<const std::string_view> names, std::span<double> out) {
  TS_ASSIGN(const auto members, reader.members());
  for (const auto& [name, item] : members) {
    const auto known = std::ranges::find(names, name);
    if (known == names.end()) return item.refuse(fmt::format("a coefficient of {}", fmt::join(names, ", ")));
    TS_ASSIGN(const double value, item.number());
    if (!(value >= 0) || value > 1e6) return item.refuse("a number of at least 0");
    out[static_cast<std::size_t>(known - names.begin())] = value;
  }
  return {};
}

}  // namespace tilesmith
