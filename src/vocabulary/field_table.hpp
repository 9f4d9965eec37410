// The fields of a struct as data: name, kind and place of each, so that sweeps, filters and spec conditions can read
// and set a field they know by name only. Derived from the struct's one field list.
//
//   for (const FieldInfo& field : field_table<AttentionSignature>()) read_field(field, &signature);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/lasting.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {

enum class FieldKind : std::uint8_t { flag, integer, enumeration, array, list };

struct FieldInfo {
  std::string_view name;
  FieldKind kind = FieldKind::integer;
  bool is_signed = false;
  std::uint8_t size = 1;                        ///< bytes of one element
  std::uint8_t count = 1;                       ///< elements: more than one for an array or a list
  std::uint16_t offset = 0;                     ///< in the struct
  std::string_view what;                        ///< enumerations and lists: the word for error messages
  std::vector<std::string_view> value_names{};  ///< enumerations and lists: by value
  std::vector<std::pair<std::string_view, std::int64_t>>
      value_aliases{};  ///< enumerations and lists: further spellings

  /// The value with this name or alias; -1 when there is none.
  [[nodiscard]] std::int64_t value_of(std::string_view text) const {
    for (std::size_t i = 0; i < value_names.size(); ++i)
      if (value_names[i] == text) return static_cast<std::int64_t>(i);
    for (const auto& [alias, value] : value_aliases)
      if (alias == text) return value;
    return -1;
  }
};

[[nodiscard]] inline std::int64_t read_field(const FieldInfo& field, const void* object, std::size_t element = 0) {
  const auto* at = static_cast<const unsigned char*>(object) + field.offset + element * field.size;
  if (field.size == 1) return field.is_signed ? static_cast<std::int64_t>(static_cast<std::int8_t>(*at)) : *at;
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return field.is_signed ? static_cast<std::int64_t>(static_cast<std::int16_t>(bits)) : bits;
}

inline void write_field(const FieldInfo& field, void* object, std::int64_t value, std::size_t element = 0) {
  auto* at = static_cast<unsigned char*>(object) + field.offset + element * field.size;
  const auto bits = static_cast<std::uint16_t>(value);
  if (field.size == 1)
    *at = static_cast<unsigned char>(bits);
  else
    std::memcpy(at, &bits, sizeof bits);
}

/// A list's values joined by "+", as append_value writes them.
inline void append_list(std::string& out, const FieldInfo& field, const void* object) {
  for (std::size_t i = 0; i < field.count; ++i) {
    const std::int64_t value = read_field(field, object, i);
    if (value == 0) break;
    if (i > 0) out += '+';
    out += field.value_names[static_cast<std::size_t>(value)];
  }
}

/// Fills in what errors and texts need to know of an enumeration.
template <TabledEnum E>
void describe_values(FieldInfo& field) {
  static_assert(sizeof(E) == 1);
  field.what = EnumTable<E>::kWhat;
  for (const auto& entry : EnumTable<E>::kNames) field.value_names.push_back(entry.name);
  if constexpr (requires { EnumTable<E>::kAliases; })
    for (const auto& entry : EnumTable<E>::kAliases)
      field.value_aliases.emplace_back(entry.name, static_cast<std::int64_t>(entry.value));
}

template <class S>
[[nodiscard]] const std::vector<FieldInfo>& field_table() {
  static const std::vector<FieldInfo>& table = lasting([] {
    std::vector<FieldInfo> out;
    const S object{};
    S::fields(object, [&](std::string_view name, const auto& value) {
      using T = std::remove_cvref_t<decltype(value)>;
      FieldInfo field;
      field.name = name;
      field.offset =
          static_cast<std::uint16_t>(reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(&object));
      if constexpr (FlagField<T>) {
        field.kind = FieldKind::flag;
      } else if constexpr (EnumField<T>) {
        field.kind = FieldKind::enumeration;
        describe_values<T>(field);
      } else if constexpr (ListField<T>) {
        static_assert(sizeof(T) == T::kMax);
        field.kind = FieldKind::list;
        field.count = T::kMax;
        describe_values<typename T::value_type>(field);
      } else if constexpr (IntegerField<T>) {
        static_assert(sizeof(T) <= 2);
        field.is_signed = std::is_signed_v<T>;
        field.size = sizeof(T);
      } else {
        using Element = typename T::value_type;
        static_assert(ArrayField<T> && sizeof(Element) <= 2);
        field.kind = FieldKind::array;
        field.is_signed = std::is_signed_v<Element>;
        field.size = sizeof(Element);
        field.count = static_cast<std::uint8_t>(value.size());
      }
      out.push_back(std::move(field));
    });
    return out;
  }());
  return table;
}

/// Null when the struct has no field of this name.
template <class S>
[[nodiscard]] const FieldInfo* find_field(std::string_view name) {
  for (const FieldInfo& field : field_table<S>())
    if (field.name == name) return &field;
  return nullptr;
}

}  // namespace tilesmith
