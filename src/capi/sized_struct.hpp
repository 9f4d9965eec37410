// Structures that begin with their size, so that a program and a library of different ages understand each other: a
// longer structure than the library's is taken when the rest of it is zero, a shorter one when it is an earlier
// version, whose missing fields are then zero.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "base/error.hpp"

namespace tilesmith::capi {

/// The sizes of a structure's earlier versions.
using EarlierSizes = std::initializer_list<std::size_t>;

/// invalid_argument: a null structure, or one whose size cannot be. `known` is the size the library knows.
[[nodiscard]] Status check_struct(const char* name, const void* given, std::size_t known, EarlierSizes earlier = {});

/// The caller's structure, which must not be read beyond its size, with every field the library knows: as it is where
/// it has them, else a copy in `room`.
template <class Struct>
[[nodiscard]] Result<const Struct*> read_struct(const char* name, const Struct* given, EarlierSizes earlier,
                                                Struct& room) {
  TS_TRY(check_struct(name, given, sizeof(Struct), earlier));
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size >= sizeof(Struct)) return given;
  room = {};
  std::memcpy(&room, given, size);
  return &room;
}

/// Fills as much of the caller's structure as it has; its struct_size stays. `earlier` are the sizes of the versions
/// before this one.
template <class Struct>
[[nodiscard]] Status write_struct(const char* name, Struct* out, const Struct& value, EarlierSizes earlier = {}) {
  TS_TRY(check_struct(name, out, sizeof(Struct), earlier));
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  Struct whole = value;
  whole.struct_size = size;
  std::memcpy(out, &whole, size < sizeof(Struct) ? size : sizeof(Struct));
  return {};
}

}  // namespace tilesmith::capi
