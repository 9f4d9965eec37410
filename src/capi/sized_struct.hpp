// Structures that begin with their size, so that a program and a library of different ages understand each other: a
// longer structure than the library's is taken when the rest of it is zero. Every structure is of its first version, so
// a shorter one lacks fields that always were; the first field to be added brings the rule for those without it.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/error.hpp"

namespace tilesmith::capi {

/// invalid_argument: a null structure, or one whose size cannot be. `known` is the size the library knows.
[[nodiscard]] Status check_struct(const char* name, const void* given, std::size_t known);

/// Fills the caller's structure; its struct_size stays.
template <class Struct>
[[nodiscard]] Status write_struct(const char* name, Struct* out, const Struct& value) {
  TS_TRY(check_struct(name, out, sizeof(Struct)));
  const std::uint64_t size = out->struct_size;
  *out = value;
  out->struct_size = size;
  return {};
}

}  // namespace tilesmith::capi
