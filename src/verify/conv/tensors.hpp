// One convolution call as the checks see it. The meaning of every field is that of include/tilesmith/conv.hpp, restated
// here as code that uses nothing of the generator or of the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/element_type.hpp"
#include "base/error.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Three coordinates, outer to inner.
using Coordinates = std::array<std::int64_t, 3>;

/// A tensor that the caller owns: element (n, g, c, pixel) lies at the sum of each times its stride.
struct ConvTensorView {
  const void* data = nullptr;
  ElementType type = ElementType::fp32;
  std::int64_t batch = 0, group = 0, channel = 0;
  Coordinates spatial{};

  [[nodiscard]] double at(std::int64_t n, std::int64_t g, std::int64_t c, const Coordinates& pixel) const;
};

/// One operation of the epilogue. A vector is a view with strides of groups and channels alone.
struct ConvStep {
  EpilogueOp op = EpilogueOp::none;
  ConvTensorView operand{};
  float low = 0, high = 0;
};

struct ConvTensors {
  ConvDirection direction = ConvDirection::forward;
  ConvTensorView x, w, y;
  std::int64_t batch = 1, groups = 1, c = 1, k = 1;
  Coordinates in{1, 1, 1}, out{1, 1, 1}, filter{1, 1, 1};
  Coordinates stride{1, 1, 1}, dilation{1, 1, 1}, pad{};
  std::vector<ConvStep> epilogue{};

  // The result of a group as a matrix: (n, pixel) by channels of the result, or k by (tap, c) of w.
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t columns() const;
  /// Terms of an element, those that are zeros for lying outside included: (tap, channel), or (n, pixel of y).
  [[nodiscard]] std::int64_t depth() const;
  /// The factors of term p of row `row` and of column `column`; 0 outside.
  [[nodiscard]] double left(std::int64_t group, std::int64_t row, std::int64_t p) const;
  [[nodiscard]] double right(std::int64_t group, std::int64_t p, std::int64_t column) const;
  /// What operation `step` reads for an element of the result.
  [[nodiscard]] double operand(const ConvStep& step, std::int64_t group, std::int64_t row, std::int64_t column) const;
  /// Where an element lies in the reference: images, pixels, channels; of w filters, taps, channels.
  [[nodiscard]] std::size_t place(std::int64_t group, std::int64_t row, std::int64_t column) const;
  [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(groups * rows() * columns()); }
};

}  // namespace tilesmith
