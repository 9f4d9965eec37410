// Values of fields as a word of a command line, and back.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {

/// A mistake in what an option was given: "--batch 2x", and what would be right.
[[nodiscard]] inline std::unexpected<Error> wrong_value(std::string_view option, std::string_view text,
                                                        std::string hint) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} {}", option, text.empty() ? "''" : text.substr(0, 80)),
              std::move(hint));
}

/// Calls read(part) for each of the parts between commas, until one fails. An empty text has no parts.
template <class Read>
[[nodiscard]] Status for_each_part(std::string_view text, Read read) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    TS_TRY(read(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return read(text);  // a comma at the end
  }
  return {};
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// "256", "0.5", "bottom_right", "bias,gelu", "5,0,17"; empty for an optional without a value.
template <class T>
[[nodiscard]] std::string text_of_value(const T& value) {
  std::string out;
  if constexpr (IsOptional<T>::value) {
    if (value) out = text_of_value(*value);
  } else if constexpr (std::floating_point<T>) {
    out = fmt::format("{}",
                      value);  // the shortest that reads back as the same number
  } else if constexpr (IntegerField<T>) {
    out = fmt::format("{}", value);
  } else if constexpr (IsVector<T>::value || ListField<T>) {
    for (const auto element : value) out += (out.empty() ? "" : ",") + text_of_value(element);
  } else {
    append_value(out, value);
  }
  return out;
}

/// The inverse of text_of_value. The error names the option, what it was given, and what would be right.
template <class T>
[[nodiscard]] Status read_value_text(std::string_view option, std::string_view text, T& value) {
  if constexpr (IsOptional<T>::value) {
    return read_value_text(option, text, value.emplace());
  } else if constexpr (FlagField<T>) {
    if (text != "1" && text != "0") return wrong_value(option, text, "0 or 1");
    value = text == "1";
    return {};
  } else if constexpr (std::floating_point<T> || IntegerField<T>) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc() && end == text.data() + text.size()) return {};
    return wrong_value(option, text,
                       std::floating_point<T>
                           ? std::string("a number")
                           : fmt::format("a whole number {} {}", std::is_unsigned_v<T> ? "from 0 to" : "up to",
                                         std::numeric_limits<T>::max()));
  } else if constexpr (EnumField<T>) {
    const auto parsed = parse_enum<T>(text);
    if (!parsed)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", option, parsed.error().message),
                  parsed.error().hint);
    value = *parsed;
    return {};
  } else if constexpr (IsVector<T>::value) {
    value.clear();
    return for_each_part(text,
                         [&](std::string_view part) { return read_value_text(option, part, value.emplace_back()); });
  } else {
    static_assert(ListField<T>);
    value = {};
    return for_each_part(text, [&](std::string_view part) -> Status {
      typename T::value_type element{};
      TS_TRY(read_value_text(option, part, element));
      if (element == typename T::value_type{} || value.push_back(element)) return {};
      return fail(ErrorCode::invalid_argument, fmt::format("{} {}: too many operations", option, text),
                  fmt::format("at most {}", T::kMax));
    });
  }
}

}  // namespace tilesmith
