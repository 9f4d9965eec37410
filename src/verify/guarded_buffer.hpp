// A tensor's memory between red zones, all of it filled with a pattern that is NaN in every floating type. An element
// that a kernel does not write stays NaN. A write outside the tensor (before it, behind it, or in a gap between rows)
// is found, and a read there spoils the kernel's result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/aligned_buffer.hpp"
#include "verify/output.hpp"

namespace tilesmith {

class GuardedBuffer {
 public:
  GuardedBuffer(ElementType type, const TensorExtents& extents, const TensorStrides& strides);
  GuardedBuffer(GuardedBuffer&&) noexcept = default;  // no copies: views point into the storage
  GuardedBuffer& operator=(GuardedBuffer&&) noexcept = default;

  /// The first element of the tensor.
  [[nodiscard]] std::byte* data() { return storage_.data() + kRedZone; }
  /// From the tensor's first element to its last.
  [[nodiscard]] std::span<const std::byte> tensor() const { return {storage_.data() + kRedZone, size_}; }
  [[nodiscard]] TensorView view() const { return {storage_.data() + kRedZone, type_, strides_}; }
  /// Everything, red zones included: to copy to a device and back. The tensor begins at `offset()`.
  [[nodiscard]] std::span<std::byte> storage() { return {storage_.data(), size_ + 2 * kRedZone}; }
  [[nodiscard]] std::size_t offset() const { return kRedZone; }

  /// Rounds `values`, dense in the order batch, head, row, column, into the tensor.
  void fill(std::span<const float> values);

  /// Says where something was written outside the tensor's elements or in a row that the filter leaves out. Empty when
  /// nothing was.
  [[nodiscard]] std::optional<std::string> damage(const RowFilter& wanted = {}) const;

 private:
  /// Longer than the widest overrun seen in practice, one tile row of 256 fp64, and a multiple of the storage's
  /// alignment.
  static constexpr std::size_t kRedZone = 4096;

  /// Elements of the tensor that lie side by side.
  struct Run {
    std::int64_t begin, end;
  };
  template <class Visit>
  void for_each_row(Visit visit) const;
  /// Those of the wanted rows, as they lie one after another.
  [[nodiscard]] std::vector<Run> runs(const RowFilter& wanted) const;

  ElementType type_;
  TensorExtents extents_;
  TensorStrides strides_;
  std::size_t size_ = 0;  ///< bytes from the tensor's first element to its last
  AlignedBuffer storage_;
};

}  // namespace tilesmith
