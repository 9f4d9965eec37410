// Where somebody else's tensor lies.
#pragma once

#include <cstdint>

#include "base/element_type.hpp"

namespace tilesmith {

/// Strides of a rank-4 tensor, in elements.
struct TensorStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t column = 1;

  friend bool operator==(const TensorStrides&, const TensorStrides&) = default;
};

/// What attention's stored values are multiplied by, for each block of a sequence's rows; strides of 0 share a scale.
struct TensorScale {
  static constexpr std::int64_t kBlockRows = 128;

  const float* data = nullptr;  ///< null: 1
  std::int64_t batch = 0, head = 0, block = 0;

  [[nodiscard]] double at(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return data == nullptr ? 1 : static_cast<double>(data[b * batch + h * head + row / kBlockRows * block]);
  }
};

/// Somebody else's tensor. Attention in group mode ignores stride.batch: a sequence starts at its offset in rows.
struct TensorView {
  const void* data = nullptr;
  ElementType type = ElementType::fp32;
  TensorStrides strides{};
  TensorScale scale{};
};

}  // namespace tilesmith
