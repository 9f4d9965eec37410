#include "verify/output.hpp"

#include <cstring>
#include <utility>

namespace tilesmith {
namespace {

std::int64_t along(Axis axis, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) {
  switch (axis) {
    case Axis::batch:
      return batch;
    case Axis::head:
      return head;
    case Axis::row:
      return row;
    case Axis::column:
      return column;
  }
  std::unreachable();
}

std::int64_t extent(const OutputSpec& output, Axis axis) {
  const TensorExtents& e = output.extents;
  return along(axis, e.batch, e.head, e.row, e.column);
}

std::int64_t stride(const OutputSpec& output, Axis axis) {
  const TensorStrides& s = output.strides;
  return along(axis, s.batch, s.head, s.row, s.column);
}

}  // namespace

std::size_t bytes_of(const OutputSpec& output) {
  const TensorExtents& e = output.extents;
  const TensorStrides& s = output.strides;
  if (e.count() == 0) return 0;
  return size_of(output.type) * static_cast<std::size_t>(1 + (e.batch - 1) * s.batch + (e.head - 1) * s.head +
                                                         (e.row - 1) * s.row + (e.column - 1) * s.column);
}

std::vector<double> read_output(const OutputSpec& output, const void* data) {
  const TensorExtents& e = output.extents;
  const TensorStrides& s = output.strides;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(e.count()));
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.head; ++h)
      for (std::int64_t r = 0; r < e.row; ++r) {
        if (!output.is_written(b, r)) continue;
        const std::int64_t start = b * s.batch + h * s.head + r * s.row;
        for (std::int64_t c = 0; c < e.column; ++c)
          values.push_back(load_element(output.type, data, static_cast<std::size_t>(start + c * s.column)));
      }
  return values;
}

void copy_written(const OutputSpec& from, const void* source, const OutputSpec& to, void* destination) {
  const TensorExtents& e = from.extents;
  const std::size_t width = size_of(from.type);
  const auto place = [&](const TensorStrides& s, std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>(b * s.batch + h * s.head + r * s.row + c * s.column) * width;
  };
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.head; ++h)
      for (std::int64_t r = 0; r < e.row; ++r) {
        if (!from.is_written(b, r)) continue;
        for (std::int64_t c = 0; c < e.column; ++c)
          std::memcpy(static_cast<std::byte*>(destination) + place(to.strides, b, h, r, c),
                      static_cast<const std::byte*>(source) + place(from.strides, b, h, r, c), width);
      }
}

HostArray to_array(const OutputSpec& output, const void* data) {
  HostArray array;
  array.type = output.type;
  std::int64_t count = 1;
  for (const Axis axis : output.axes) {
    array.shape.push_back(extent(output, axis));
    count *= array.shape.back();
  }
  const std::size_t width = size_of(output.type);
  array.data.resize(static_cast<std::size_t>(count) * width);
  for (std::int64_t at = 0; at < count; ++at) {
    std::int64_t from = 0, rest = at;
    for (std::size_t axis = output.axes.size(); axis-- > 0;) {
      from += rest % array.shape[axis] * stride(output, output.axes[axis]);
      rest /= array.shape[axis];
    }
    std::memcpy(array.data.data() + static_cast<std::size_t>(at) * width,
                static_cast<const std::byte*>(data) + static_cast<std::size_t>(from) * width, width);
  }
  if (!output.shape.empty()) array.shape = output.shape;
  return array;
}

}  // namespace tilesmith
