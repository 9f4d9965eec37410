// Checks that every operation's problems and arguments share. Errors: invalid_argument, with the name and the figures.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

/// 2^40 of anything is beyond every machine; below it, sums of a few lengths cannot overflow 64 bits.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;

[[nodiscard]] Status check_dimension(std::string_view name, std::int64_t value, std::int64_t low,
                                     std::int64_t high = kMaxDimension);

/// Whether the product fits below 2^62. A dimension of 0 counts as 1: strides are products of some of the dimensions,
/// and must fit too.
[[nodiscard]] bool product_fits(std::initializer_list<std::int64_t> factors);

struct SizeAndStride {
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

/// Strides are 0 (broadcast) or more (that of an only member may be anything), and the furthest element of the tensor,
/// in bytes from its first, is addressable.
[[nodiscard]] Status check_strides(std::string_view name, std::initializer_list<SizeAndStride> dimensions,
                                   std::int64_t element_bytes);

/// Every element of an output has a place of its own: two tasks that write one place would race. Each stride must step
/// over all that the smaller strides reach.
[[nodiscard]] Status check_apart(std::string_view name, std::array<SizeAndStride, 4> dimensions);
/// The same of any number of dimensions, whose order is lost.
[[nodiscard]] Status check_apart(std::string_view name, std::span<SizeAndStride> dimensions);

[[nodiscard]] Status check_pointer(std::string_view name, const void* pointer, bool needed, std::string_view why);

/// What buffers of packed operands are aligned to, in bytes.
inline constexpr std::size_t kPackedAlignment = 64;

/// Checks the place of a packed operand; `why` says what is wanted.
[[nodiscard]] Status check_packed_place(std::string_view name, const void* packed, std::string_view why);

}  // namespace tilesmith
