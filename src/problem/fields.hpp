// What follows from a problem's list of fields, for every operation alike: a check that the list is complete, a hash,
// a text that identifies the problem, JSON.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "problem/hash_words.hpp"
#include "vocabulary/canonical.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/field_value.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// A struct that calls visit(name, field) for each of its fields.
template <class T>
concept Reflected = std::is_aggregate_v<T> && requires(const T& object) {
  T::fields(object, [](std::string_view, const auto&) {});
};

namespace detail {

/// Stands for a value of any type, where a struct is initialised in an unevaluated expression.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

/// How many values the braces of an aggregate take: the number of its members.
template <class T, class... Values>
consteval std::size_t member_count() {
  if constexpr (requires { T{Values{}..., Anything{}}; })
    return member_count<T, Values..., Anything>();
  else
    return sizeof...(Values);
}

template <class T>
consteval std::size_t listed_count() {
  std::size_t count = 0;
  const T object{};
  T::fields(object, [&count](std::string_view, const auto&) { ++count; });
  return count;
}

/// Bits that tell the values of a flag or an enumeration apart; 0 for a field that has a word of its own.
template <class T>
consteval int small_bits() {
  if constexpr (FlagField<T>)
    return 1;
  else if constexpr (EnumField<T>)
    return std::bit_width(enum_size<T>() - 1);
  else
    return 0;
}

template <class T>
consteval int small_bits_of_all() {
  int bits = 0;
  const T object{};
  T::fields(object, [&bits]<class F>(std::string_view, const F&) { bits += small_bits<F>(); });
  return bits;
}

}  // namespace detail

/// Whether `fields` names every member. Everything below refuses to compile for a struct whose list is incomplete.
template <Reflected T>
inline constexpr bool lists_every_field = detail::member_count<T>() == detail::listed_count<T>();

/// A hash of all fields, equal for equal problems within a process. Flags and enumerations share one word.
template <Reflected T>
[[nodiscard]] std::uint64_t hash_of(const T& object) {
  static_assert(lists_every_field<T>, "a member is missing from `fields`");
  static_assert(detail::small_bits_of_all<T>() <= 64, "flags and enumerations no longer fit one word");
  std::uint64_t hash = 0, small = 0;
  T::fields(object, [&]<class F>(std::string_view, const F& value) {
    if constexpr (constexpr int bits = detail::small_bits<F>(); bits > 0) {
      small = small << bits | static_cast<std::uint64_t>(value);
    } else if constexpr (ListField<F>) {
      static_assert(sizeof(F) == sizeof(std::uint64_t));
      hash = mixed_hash(hash, std::bit_cast<std::uint64_t>(value));
    } else {
      static_assert(IntegerField<F>);
      hash = mixed_hash(hash, static_cast<std::uint64_t>(value));
    }
  });
  return mixed_hash(hash, small);
}

/// "field=value;" for every field that is not at its default, in order. Two problems of one operation are equal exactly
/// when these texts are, and a new field with a default changes no text that exists.
template <Reflected T>
[[nodiscard]] std::string differences_from_default(const T& object) {
  static_assert(lists_every_field<T>, "a member is missing from `fields`");
  std::string out;
  append_changed_fields(out, object);
  return out;
}

}  // namespace tilesmith
