// What the calls of every operation check alike.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "tilesmith.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::capi {

/// Errors: invalid_argument, a value outside 0 .. last of the enumeration `type`.
[[nodiscard]] Status check_enum(std::string_view field, std::int64_t value, std::int64_t last, std::string_view type);

/// Errors: invalid_argument, a value that nothing asks for: it would be ignored, and the caller meant something by it.
[[nodiscard]] Status check_unused(std::string_view field, bool given, std::string_view asks);

/// Whether an address or a distance is no multiple of the copy engines' 16 bytes.
[[nodiscard]] bool is_unaligned(const void* pointer);
[[nodiscard]] bool is_unaligned(std::int64_t stride, int element_bits);

/// Errors: invalid_argument, a workspace too small for the plan or not aligned, or a stream on the CPU.
[[nodiscard]] Result<RunOptions> options_of(void* stream, void* workspace, std::uint64_t workspace_bytes,
                                            const Plan& plan);

}  // namespace tilesmith::capi
