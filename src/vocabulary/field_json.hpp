// Structs to and from JSON, derived from their field lists.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {

/// A value as errors quote it.
inline std::string shown_json(const nlohmann::json& value) {
  std::string text = value.dump();
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

template <class T>
[[nodiscard]] nlohmann::json value_to_json(const T& value) {
  if constexpr (EnumField<T>) {
    return name_of(value);
  } else if constexpr (ListField<T>) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto element : value) list.push_back(name_of(element));
    return list;
  } else {
    return value;
  }
}

template <class T>
[[nodiscard]] Status integer_from_json(const nlohmann::json& from, const std::string& path, T& value) {
  using Limits = std::numeric_limits<T>;
  const auto wrong = [&] {
    return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)),
                fmt::format("an integer from {} to {}", static_cast<long long>(Limits::min()),
                            static_cast<long long>(Limits::max())));
  };
  if (!from.is_number_integer()) return wrong();
  if (from.is_number_unsigned() && from.get<std::uint64_t>() > static_cast<std::uint64_t>(Limits::max()))
    return wrong();
  const auto number = from.get<std::int64_t>();
  if (number < static_cast<std::int64_t>(Limits::min()) || number > static_cast<std::int64_t>(Limits::max()))
    return wrong();
  value = static_cast<T>(number);
  return {};
}

template <class T>
[[nodiscard]] Status value_from_json(const nlohmann::json& from, const std::string& path, T& value) {
  if constexpr (FlagField<T>) {
    if (!from.is_boolean())
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)), "true or false");
    value = from.get<bool>();
    return {};
  } else if constexpr (IntegerField<T>) {
    return integer_from_json(from, path, value);
  } else if constexpr (EnumField<T>) {
    if (!from.is_string())
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)),
                  fmt::format("the name of a {}", EnumTable<T>::kWhat));
    auto parsed = parse_enum<T>(from.template get_ref<const std::string&>());
    if (!parsed) return std::unexpected(parsed.error().in(path));
    value = *parsed;
    return {};
  } else if constexpr (ListField<T>) {
    using Element = typename T::value_type;
    const auto wrong = [&] {
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)),
                  fmt::format("an array of at most {} names of a {}", T::kMax, EnumTable<Element>::kWhat));
    };
    if (!from.is_array()) return wrong();
    value = {};
    for (std::size_t i = 0; i < from.size(); ++i) {
      Element element{};
      TS_TRY(value_from_json(from[i], fmt::format("{}[{}]", path, i), element));
      if (!value.push_back(element)) return wrong();
    }
    return {};
  } else {
    static_assert(ArrayField<T>);
    if (!from.is_array() || from.size() > value.size())
      return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)),
                  fmt::format("an array of at most {} integers", value.size()));
    value = {};
    for (std::size_t i = 0; i < from.size(); ++i)
      TS_TRY(integer_from_json(from[i], fmt::format("{}[{}]", path, i), value[i]));
    return {};
  }
}

/// An object with every field.
template <class S>
[[nodiscard]] nlohmann::json struct_to_json(const S& fields_of) {
  nlohmann::json out = nlohmann::json::object();
  S::fields(fields_of,
            [&out](std::string_view field, const auto& value) { out[std::string(field)] = value_to_json(value); });
  return out;
}

/// The inverse of struct_to_json. Absent fields keep their values; an unknown field or a value of the wrong kind is an
/// error that names the JSON path, the value, and what would be right.
template <class S>
[[nodiscard]] Status struct_from_json(const nlohmann::json& from, const std::string& path, S& into) {
  if (!from.is_object()) return fail(ErrorCode::parse, fmt::format("{} is {}", path, shown_json(from)), "an object");
  std::vector<std::string> known;
  S::fields(into, [&known](std::string_view field, auto&) { known.emplace_back(field); });
  for (const auto& [name, value] : from.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fail(ErrorCode::parse, fmt::format("{}.{} is not a known field", path, name.substr(0, 64)),
                did_you_mean(name, known));
  }
  Status status;
  S::fields(into, [&](std::string_view field, auto& value) {
    if (!status) return;
    if (const auto found = from.find(std::string(field)); found != from.end())
      status = value_from_json(*found, fmt::format("{}.{}", path, field), value);
  });
  return status;
}

}  // namespace tilesmith
