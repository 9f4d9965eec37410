// One table per enum maps its values to names. Printing, parsing, JSON, filters and help texts all read that table;
// nothing else spells a value's name.
//
// A table is a specialisation of EnumTable<E>:
//   static constexpr std::string_view kWhat = "mask";                        // the word used in error messages
//   static constexpr auto kNames = enum_names<E>({{E::none, "no"}, ...});    // dense: entry i names value i
//   static constexpr EnumName<E> kAliases[] = {...};                         // optional: further spellings that parse
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

template <class E>
struct EnumTable;

template <class E>
concept TabledEnum = std::is_enum_v<E> && requires {
  EnumTable<E>::kNames;
};

/// Builds a name table; does not compile when the table has a gap or is out of order.
template <class E, std::size_t N>
consteval std::array<EnumName<E>, N> enum_names(const EnumName<E> (&names)[N]) {
  std::array<EnumName<E>, N> table{};
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(names[i].value) != i) throw "enum table out of order";
    table[i] = names[i];
  }
  return table;
}

template <TabledEnum E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  return EnumTable<E>::kNames[static_cast<std::size_t>(value)].name;
}

template <TabledEnum E>
[[nodiscard]] constexpr std::size_t enum_size() {
  return EnumTable<E>::kNames.size();
}

namespace detail {
[[nodiscard]] Error unknown_name(std::string_view what, std::string_view given, const std::vector<std::string>& known);
}

/// The value with this name or alias; the error lists the names and the nearest one.
template <TabledEnum E>
[[nodiscard]] Result<E> parse_enum(std::string_view text) {
  for (const auto& entry : EnumTable<E>::kNames)
    if (entry.name == text) return entry.value;
  if constexpr (requires { EnumTable<E>::kAliases; })
    for (const auto& entry : EnumTable<E>::kAliases)
      if (entry.name == text) return entry.value;
  std::vector<std::string> known;
  for (const auto& entry : EnumTable<E>::kNames) known.emplace_back(entry.name);
  return std::unexpected(detail::unknown_name(EnumTable<E>::kWhat, text, known));
}

}  // namespace tilesmith
