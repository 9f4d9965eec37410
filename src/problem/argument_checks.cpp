#include "problem/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tilesmith {

Status check_dimension(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, value), fmt::format("{} to {}", low, high));
  return {};
}

bool product_fits(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors)
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(1, factor), &product) ||
        product > (std::int64_t{1} << 62))
      return false;
  return true;
}

Status check_strides(std::string_view name, std::initializer_list<SizeAndStride> dimensions,
                     std::int64_t element_bytes) {
  std::int64_t furthest = 0;
  for (const auto& [size, stride] : dimensions) {
    std::int64_t span = 0;
    if (stride < 0 && size > 1)  // that of the only member is nobody's
      return fail(ErrorCode::invalid_argument, fmt::format("{} has the stride {}", name, stride),
                  "strides of 0 (broadcast) or more elements");
    if (size > 0 &&
        (__builtin_mul_overflow(size - 1, stride, &span) || __builtin_add_overflow(furthest, span, &furthest)))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: a dimension of {} with stride {} overflows", name, size, stride),
                  "offsets below 2^62 bytes");
  }
  std::int64_t span_bytes = 0;
  if (__builtin_mul_overflow(furthest, element_bytes, &span_bytes) || span_bytes > (std::int64_t{1} << 62))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: its furthest element is {} elements away, which overflows", name, furthest),
                "offsets below 2^62 bytes");
  return {};
}

Status check_apart(std::string_view name, std::array<SizeAndStride, 4> dimensions) {
  return check_apart(name, std::span(dimensions));
}

Status check_apart(std::string_view name, std::span<SizeAndStride> dimensions) {
  if (std::ranges::any_of(dimensions, [](const SizeAndStride& d) { return d.size == 0; })) return {};
  std::ranges::sort(dimensions, {}, &SizeAndStride::stride);
  std::int64_t reached = 0;  // the furthest element of the dimensions so far
  for (const auto& [size, stride] : dimensions) {
    if (size == 1) continue;
    if (stride <= reached)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("elements of {} overlap: a dimension of {} has stride {}", name, size, stride),
                  fmt::format("a stride of at least {}", reached + 1));
    reached += (size - 1) * stride;
  }
  return {};
}

Status check_pointer(std::string_view name, const void* pointer, bool needed, std::string_view why) {
  if (needed && pointer == nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is null", name), std::string(why));
  return {};
}

Status check_packed_place(std::string_view name, const void* packed, std::string_view why) {
  TS_TRY(check_pointer(name, packed, true, why));
  if (reinterpret_cast<std::uintptr_t>(packed) % kPackedAlignment == 0) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{}: the packed buffer is at {}", name, packed),
              fmt::format("a multiple of {} bytes", kPackedAlignment));
}

}  // namespace tilesmith
