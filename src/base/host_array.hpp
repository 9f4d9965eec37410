// A tensor in this process's memory: type, shape, and its elements in row-major order. What the tensor files hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/element_type.hpp"
#include "base/error.hpp"

namespace tilesmith {

struct HostArray {
  ElementType type = ElementType::fp32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;

  [[nodiscard]] std::size_t count() const { return data.size() / size_of(type); }
  /// Every element as a number.
  [[nodiscard]] std::vector<float> to_floats() const;
};

/// The elements of `values`, rounded to `type`. The product of the shape must be their number.
[[nodiscard]] HostArray make_array(ElementType type, std::vector<std::int64_t> shape, std::span<const float> values);

/// How many bytes a tensor of this shape takes; an error for a negative size or a product that does not fit 63 bits.
[[nodiscard]] Result<std::uint64_t> byte_size(ElementType type, std::span<const std::int64_t> shape);

/// "(2, 3)", for messages.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace tilesmith
