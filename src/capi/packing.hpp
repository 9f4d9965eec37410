// Packing an operand once, alike of every operation. Packing is a type with
//   of(context, call)   what a call asks for
//   bytes()             what the packed operand takes
//   pack(to)            writes it
#pragma once

#include <fmt/format.h>

#include "capi/operation.hpp"

namespace tilesmith::capi {

template <class Packing, class Call>
[[nodiscard]] tilesmith_status packed_bytes(tilesmith_context* context, const Call* call, std::uint64_t* out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return fail(ErrorCode::invalid_argument, "out is null", "a place for the number");
    *out = 0;
    TS_ASSIGN(const Packing packing, Packing::of(context, call));
    TS_ASSIGN(*out, packing.bytes());
    return {};
  });
}

template <class Packing, class Call>
[[nodiscard]] tilesmith_status pack(tilesmith_context* context, const Call* call, void* packed, std::uint64_t bytes) {
  return guarded([&]() -> Status {
    TS_ASSIGN(const Packing packing, Packing::of(context, call));
    TS_ASSIGN(const std::size_t needed, packing.bytes());
    if (bytes < needed)
      return fail(ErrorCode::invalid_argument, fmt::format("packed_bytes is {}", bytes),
                  fmt::format("{} or more", needed));
    return packing.pack(packed);
  });
}

}  // namespace tilesmith::capi
