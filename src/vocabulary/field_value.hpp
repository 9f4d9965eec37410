// The kinds of value a signature or algorithm field can have, and how each is written as text. Everything that walks
// `fields` (canonical form, names, JSON, filter columns) shares these.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <type_traits>

#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <class T>
struct IsIntegerArray : std::false_type {};
template <std::integral T, std::size_t N>
struct IsIntegerArray<std::array<T, N>> : std::true_type {};

template <class T>
concept FlagField = std::same_as < std::remove_cvref_t<T>,
bool > ;
template <class T>
concept IntegerField = std::integral<std::remove_cvref_t<T>> && !FlagField<T>;
template <class T>
concept EnumField = TabledEnum<std::remove_cvref_t<T>>;
template <class T>
concept ArrayField = IsIntegerArray<std::remove_cvref_t<T>>::value;

/// An ordered list of an enumeration's values, of which value 0 ends it: GemmEpilogue.
template <class T>
concept ListField = requires(T list, typename T::value_type value) {
  requires TabledEnum<typename T::value_type>;
  T::kMax;
  list.push_back(value);
};

inline void append_integer(std::string& out, long long value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

/// "1", "fp16", "64x256x0", "bias+gelu" ... : unambiguous for a known field type.
template <class T>
void append_value(std::string& out, const T& value) {
  if constexpr (FlagField<T>) {
    out += value ? '1' : '0';
  } else if constexpr (IntegerField<T>) {
    append_integer(out, static_cast<long long>(value));
  } else if constexpr (EnumField<T>) {
    out += name_of(value);
  } else if constexpr (ListField<T>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += '+';
      out += name_of(value[i]);
    }
  } else {
    static_assert(ArrayField<T>);
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += 'x';
      append_integer(out, static_cast<long long>(value[i]));
    }
  }
}

}  // namespace tilesmith
