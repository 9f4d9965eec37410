// Where the elements of a tensor lie that the caller owns.
#pragma once

#include <cstdint>

#include "base/element_type.hpp"

namespace tilesmith {

/// Sizes of a rank-4 tensor.
struct TensorExtents {
  std::int64_t batch = 1, head = 1, row = 1, column = 1;

  [[nodiscard]] std::int64_t count() const { return batch * head * row * column; }
};

/// Strides of a rank-4 tensor, in elements.
struct TensorStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t column = 1;

  friend bool operator==(const TensorStrides&, const TensorStrides&) = default;
};

/// Factors of attention's stored values, one for each block of a sequence's rows, or for each row of a page. A stride
/// of 0 shares a factor.
struct TensorScale {
  static constexpr std::int64_t kBlockRows = 128;

  const float* data = nullptr;  ///< null: 1
  std::int64_t batch = 0, head = 0, block = 0;
  bool by_page = false;  ///< b is a page and a row one of the page, and each row is a block

  [[nodiscard]] double at(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return data == nullptr ? 1
                           : static_cast<double>(data[b * batch + h * head + row / (by_page ? 1 : kBlockRows) * block]);
  }
};

/// A tensor that the caller owns. Attention in group mode ignores stride.batch: a sequence starts at its offset in
/// rows.
struct TensorView {
  const void* data = nullptr;
  ElementType type = ElementType::fp32;
  TensorStrides strides{};
  TensorScale scale{};
};

}  // namespace tilesmith
