// What one element of a tensor in memory or in a file is, and moving elements between types.
//
// Sixteen-bit and eight-bit floats have no C++ type here: they travel as bytes plus an ElementType, and are numbers
// only inside a loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.hpp"

namespace tilesmith {

enum class ElementType : std::uint8_t {
  fp64,
  fp32,
  fp16,
  bf16,
  fp8e4m3,
  fp8e5m2,
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean,
};

inline constexpr std::array kElementTypes = {
    ElementType::fp64,    ElementType::fp32,   ElementType::fp16,   ElementType::bf16,  ElementType::fp8e4m3,
    ElementType::fp8e5m2, ElementType::int64,  ElementType::int32,  ElementType::int16, ElementType::int8,
    ElementType::uint64,  ElementType::uint32, ElementType::uint16, ElementType::uint8, ElementType::boolean,
};

[[nodiscard]] std::string_view to_string(ElementType type);
/// The type a name stands for ("bf16"); the error lists the names.
[[nodiscard]] Result<ElementType> parse_element_type(std::string_view name);
[[nodiscard]] std::size_t size_of(ElementType type);
[[nodiscard]] bool is_floating(ElementType type);

/// The largest relative error of rounding a number to a floating type; 0 for integers.
[[nodiscard]] double unit_roundoff(ElementType type);
/// The smallest positive number of a floating type.
[[nodiscard]] double smallest_subnormal(ElementType type);

/// Element `index` of an array, as a number. 64-bit integers beyond 2^53 lose their low bits.
[[nodiscard]] double load_element(ElementType type, const void* data, std::size_t index);
/// Rounds `value` to the type (floats: nearest even; integers: nearest even, clamped to the range, NaN becomes 0;
/// boolean: not zero).
void store_element(ElementType type, void* data, std::size_t index, double value);
/// `value` rounded to the type.
[[nodiscard]] double round_to(ElementType type, double value);

/// The same for whole arrays; `source` or `target` holds as many elements of `type` as the span.
void load_elements(ElementType type, const void* source, std::span<float> target);
void load_elements(ElementType type, const void* source, std::span<double> target);
void store_elements(ElementType type, std::span<const float> source, void* target);
void store_elements(ElementType type, std::span<const double> source, void* target);

}  // namespace tilesmith
