#include "spec/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_error.hpp"
#include "base/lasting.hpp"
#include "base/nearest.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

const json& kMissing = lasting(json());

/// The parser recurses once per level, so the depth is bounded before it runs.
bool too_deep(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<json> JsonReader::parse(std::string_view file, std::string_view text) {
  constexpr int kMaxDepth = 64;
  if (too_deep(text, kMaxDepth))
    return fail(ErrorCode::parse, fmt::format("{}: JSON nested deeper than {} levels", file, kMaxDepth));
  // The parser takes a NUL for the end and would not look at what follows.
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::parse, fmt::format("{}: not valid JSON: a NUL in it", file));
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const std::size_t at = std::min(error.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    return fail(ErrorCode::parse, fmt::format("{}:{}: not valid JSON: {}", file, line, words_of(error)));
  } catch (const json::exception& error) {  // a number that no double holds
    return fail(ErrorCode::parse, fmt::format("{}: not valid JSON: {}", file, words_of(error)));
  }
}

bool JsonReader::has(std::string_view field) const {
  return value_->is_object() && value_->contains(std::string(field));
}

JsonReader JsonReader::at(std::string_view field) const {
  const json* found = &kMissing;
  if (value_->is_object())
    if (const auto it = value_->find(std::string(field)); it != value_->end()) found = &*it;
  return {file_, fmt::format("{}.{}", path_, field), found};
}

std::string JsonReader::place() const {
  return fmt::format("{}: {}", file_, path_);
}

std::unexpected<Error> JsonReader::refuse(std::string expected) const {
  if (value_ == &kMissing) return fail(ErrorCode::parse, fmt::format("{} is missing", place()), std::move(expected));
  std::string shown = value_->dump(-1, ' ', false, json::error_handler_t::replace);
  if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
  return fail(ErrorCode::parse, fmt::format("{} is {}", place(), shown), std::move(expected));
}

Status JsonReader::only(std::span<const std::string_view> known) const {
  if (!value_->is_object()) return refuse("an object");
  for (const auto& [name, value] : value_->items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    return fail(ErrorCode::parse, fmt::format("{}.{} is not a known field", place(), name.substr(0, 64)),
                did_you_mean(name, names));
  }
  return {};
}

Result<std::int64_t> JsonReader::wide_integer(std::int64_t low, std::int64_t high) const {
  const auto wrong = [&] { return refuse(fmt::format("an integer from {} to {}", low, high)); };
  if (!value_->is_number_integer()) return wrong();
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return wrong();
  const auto number = value_->get<std::int64_t>();
  if (number < low || number > high) return wrong();
  return number;
}

Result<double> JsonReader::number() const {
  if (!value_->is_number()) return refuse("a number");
  return value_->get<double>();
}

Result<bool> JsonReader::boolean() const {
  if (!value_->is_boolean()) return refuse("true or false");
  return value_->get<bool>();
}

Result<std::string> JsonReader::string() const {
  if (!value_->is_string()) return refuse("a string");
  return value_->get<std::string>();
}

Result<std::vector<JsonReader>> JsonReader::elements() const {
  if (!value_->is_array()) return refuse("an array");
  std::vector<JsonReader> out;
  out.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    out.push_back(JsonReader(file_, fmt::format("{}[{}]", path_, i), &(*value_)[i]));
  return out;
}

Result<std::vector<std::pair<std::string, JsonReader>>> JsonReader::members() const {
  if (!value_->is_object()) return refuse("an object");
  std::vector<std::pair<std::string, JsonReader>> out;
  for (const auto& [name, value] : value_->items()) out.emplace_back(name, at(name));
  return out;
}

Result<std::vector<std::string>> JsonReader::strings() const {
  TS_ASSIGN(const auto items, elements());
  std::vector<std::string> out;
  for (const JsonReader& item : items) {
    TS_ASSIGN(std::string text, item.string());
    out.push_back(std::move(text));
  }
  return out;
}

Result<std::vector<int>> JsonReader::integers(std::int64_t low, std::int64_t high) const {
  TS_ASSIGN(const auto items, elements());
  std::vector<int> out;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const std::int64_t number, item.wide_integer(low, high));
    out.push_back(static_cast<int>(number));
  }
  return out;
}

}  // namespace tilesmith
