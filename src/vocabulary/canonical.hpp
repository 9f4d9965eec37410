// The canonical form of reflected structs: the text whose hash is a kernel's key.
//
//   v2;origin=own;arch=x86_64_v4;operation=attention;data_type=bf16;pipeline=flash;tile=64x256;
//
// A field that has its default value is left out, and so are an array's last elements that have theirs. So a struct
// that gains a field, or a longer array, keeps all its keys; and a default is part of the format: whoever changes one
// gives other keys to kernels that did not change. Raise kCanonicalVersion when the text of unchanged kernels changes:
// stores and journals hold keys and compare it (jit/entry.cpp, sweep/csv_journal.cpp).
//
// The form is injective: names of fields are unique over a signature and the algorithm, values hold neither ";" nor
// "=", and a missing field or element means its default.
#pragma once

#include <string>
#include <string_view>

#include "vocabulary/enum_table.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith {

inline constexpr std::string_view kCanonicalVersion = "v2";

/// Calls visit(name, value, default) for every field of `object` in declaration order.
template <class S, class Visit>
void visit_beside_defaults(const S& object, Visit&& visit) {
  static constexpr S kDefaults{};
  S::fields(object, [&](std::string_view field, const auto& value) {
    // A field lies at the same distance from the start of every object of S.
    const auto place = reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(&object);
    visit(field, value, *reinterpret_cast<decltype(&value)>(reinterpret_cast<const char*>(&kDefaults) + place));
  });
}

/// The value as text; of an array the elements up to the last that differs from its default.
template <class T>
void append_canonical_value(std::string& out, const T& value, const T& standard) {
  if constexpr (ArrayField<T>) {
    std::size_t count = value.size();
    while (count > 1 && value[count - 1] == standard[count - 1]) --count;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += 'x';
      append_integer(out, static_cast<long long>(value[i]));
    }
  } else {
    append_value(out, value);
  }
}

/// Appends "field=value;" for each field that differs from its default.
template <class S>
void append_changed_fields(std::string& out, const S& object) {
  visit_beside_defaults(object, [&out](std::string_view field, const auto& value, const auto& standard) {
    if (value == standard) return;
    out += field;
    out += '=';
    append_canonical_value(out, value, standard);
    out += ';';
  });
}

template <class Origin, class Operation, class Signature, class Algorithm>
[[nodiscard]] std::string canonical_form(Origin origin, std::string_view arch, Operation operation,
                                         const Signature& signature, const Algorithm& algorithm) {
  std::string out;
  out.reserve(320);
  out += kCanonicalVersion;
  out += ";origin=";
  out += name_of(origin);
  out += ";arch=";
  out += arch;
  out += ";operation=";
  out += name_of(operation);
  out += ';';
  append_changed_fields(out, signature);
  append_changed_fields(out, algorithm);
  return out;
}

}  // namespace tilesmith
