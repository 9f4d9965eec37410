// Reading a JSON document field by field, with errors that say where: file, JSON path, the value found, and what would
// be right.
//
//   JsonReader root(file, json);
//   TS_ASSIGN(auto bits, root.at("vector_bits").integer<int>(64, 1024));
//   TS_TRY(root.only({"arch", "features", ...}));       // an unknown field is an error, with the nearest known one
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

/// A place in a JSON document. It refers to the document, which must outlive it.
class JsonReader {
 public:
  JsonReader(std::string file, const nlohmann::json& value) : file_(std::move(file)), value_(&value) {}

  /// Parses `text` (at most 64 levels deep); the error has the file and the line. The returned document is read by
  /// JsonReader(file, document).
  [[nodiscard]] static Result<nlohmann::json> parse(std::string_view file, std::string_view text);

  [[nodiscard]] bool has(std::string_view field) const;
  /// The field's value; an absent field reads as null, which every typed read below refuses with "is missing".
  [[nodiscard]] JsonReader at(std::string_view field) const;

  /// Refuses fields that are not listed.
  [[nodiscard]] Status only(std::span<const std::string_view> known) const;
  [[nodiscard]] Status only(std::initializer_list<std::string_view> known) const {
    return only(std::span(known.begin(), known.size()));
  }

  /// An integer in low..high, which T must be able to hold.
  template <std::integral T = std::int64_t>
  [[nodiscard]] Result<T> integer(std::int64_t low, std::int64_t high) const {
    TS_ASSIGN(const std::int64_t number, wide_integer(low, high));
    return static_cast<T>(number);
  }
  [[nodiscard]] Result<double> number() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<std::string> string() const;
  [[nodiscard]] Result<std::vector<JsonReader>> elements() const;
  [[nodiscard]] Result<std::vector<std::pair<std::string, JsonReader>>> members() const;
  [[nodiscard]] Result<std::vector<std::string>> strings() const;
  [[nodiscard]] Result<std::vector<int>> integers(std::int64_t low, std::int64_t high) const;

  template <TabledEnum E>
  [[nodiscard]] Result<E> enumerator() const {
    TS_ASSIGN(const std::string text, string());
    auto value = parse_enum<E>(text);
    if (!value) return std::unexpected(value.error().in(place()));
    return value;
  }

  /// "file: $.path"
  [[nodiscard]] std::string place() const;
  /// An error about this value: "file: $.path is <value>", with what would be right.
  [[nodiscard]] std::unexpected<Error> refuse(std::string expected) const;

 private:
  JsonReader(std::string file, std::string path, const nlohmann::json* value)
      : file_(std::move(file)), path_(std::move(path)), value_(value) {}

  [[nodiscard]] Result<std::int64_t> wide_integer(std::int64_t low, std::int64_t high) const;

  std::string file_;
  std::string path_ = "$";
  const nlohmann::json* value_;
};

}  // namespace tilesmith
