// The outputs of a call: the name of each, where its elements lie, and how it is judged. A case of any operation lists
// its outputs once; poisoned buffers, reading back, error figures and verdicts work on that list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.hpp"
#include "base/host_array.hpp"
#include "base/raw_array.hpp"
#include "verify/tensor_view.hpp"

namespace tilesmith {

enum class Judged : std::uint8_t {
  within_bounds,  ///< by checks B, R and N of its reference (docs/verification.md)
  bit_for_bit,    ///< check E: every element equals the rounded reference
};

enum class Axis : std::uint8_t { batch, head, row, column };

/// Whether a call writes row `row` of a member of the batch. An empty filter: it writes all rows.
using RowFilter = std::function<bool(std::int64_t batch, std::int64_t row)>;

/// One output, seen as a tensor of rank 4. A scalar has extents of 1; plain bytes are one row of uint8.
struct OutputSpec {
  std::string name;
  ElementType type = ElementType::fp32;
  TensorExtents extents{};
  TensorStrides strides{};
  Judged judged = Judged::within_bounds;
  std::vector<Axis> axes{};  ///< dimensions of the array that users see, outermost first; the others have size 1
  std::vector<std::int64_t> shape{};  ///< of that array, where one of the axes stands for several dimensions
  bool accumulates = false;           ///< kernels combine their result with the one that is there: it begins as zeros
  RowFilter written{};

  [[nodiscard]] bool is_written(std::int64_t batch, std::int64_t row) const { return !written || written(batch, row); }
};

/// Bytes from the first element to the last; 0 of a tensor without elements.
[[nodiscard]] std::size_t bytes_of(const OutputSpec& output);

/// The elements of the rows that a call writes, in the order batch, head, row, column. `data` is the first element.
[[nodiscard]] RawArray<double> read_output(const OutputSpec& output, const void* data);

/// Copies the elements of the rows that a call writes, bit for bit, from one layout of an output to another.
void copy_written(const OutputSpec& from, const void* source, const OutputSpec& to, void* destination);

/// All elements, in the order of the axes.
[[nodiscard]] HostArray to_array(const OutputSpec& output, const void* data);

/// What a call wrote into an output: the elements that read_output gives.
struct OutputValues {
  std::string_view name;
  std::span<const double> values;
  Judged judged = Judged::within_bounds;
};

}  // namespace tilesmith
