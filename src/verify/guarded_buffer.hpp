// A tensor's memory between red zones, everything filled with a pattern that is NaN in every floating type. What a
// kernel never wrote stays NaN, what it wrote outside its tensor (before, behind, or in the gaps between rows) is
// found, and what it read there spoils its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/tensor_view.hpp"

namespace tilesmith {

/// The sizes that go with TensorStrides.
struct TensorExtents {
  std::int64_t batch = 1, head = 1, row = 1, column = 1;
};

class GuardedBuffer {
 public:
  GuardedBuffer(ElementType type, const TensorExtents& extents, const TensorStrides& strides);
  GuardedBuffer(GuardedBuffer&&) noexcept = default;  // no copies: views point into the storage
  GuardedBuffer& operator=(GuardedBuffer&&) noexcept = default;

  /// The first element of the tensor.
  [[nodiscard]] std::byte* data() { return storage_.data() + start_; }
  [[nodiscard]] TensorView view() const { return {storage_.data() + start_, type_, strides_}; }
  /// Everything, red zones included: to copy to a device and back. The tensor begins at `offset()`.
  [[nodiscard]] std::span<std::byte> storage() { return storage_; }
  [[nodiscard]] std::size_t offset() const { return start_; }

  /// Rounds `values`, dense in the order batch, head, row, column, into the tensor.
  void fill(std::span<const float> values);

  /// Whether row `row` of a batch is to be written.
  using RowFilter = std::function<bool(std::int64_t batch, std::int64_t row)>;

  /// Where something was written outside the tensor's elements, or in rows the filter leaves out; nothing when all is
  /// well.
  [[nodiscard]] std::optional<std::string> damage(const RowFilter& wanted = {}) const;

 private:
  template <class Visit>
  void for_each_row(Visit visit) const;

  ElementType type_;
  TensorExtents extents_;
  TensorStrides strides_;
  std::size_t start_ = 0;  ///< bytes of storage before the tensor
  std::size_t size_ = 0;   ///< bytes from its first element to its last
  std::vector<std::byte> storage_;
};

}  // namespace tilesmith
