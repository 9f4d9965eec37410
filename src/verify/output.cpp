#include "verify/output.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/parallel.hpp"

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

namespace {

struct WrittenRow {
  std::int64_t b, h, r;

  [[nodiscard]] std::int64_t start(const TensorStrides& s) const { return b * s.batch + h * s.head + r * s.row; }
};

std::vector<WrittenRow> written_rows(const OutputSpec& output) {
  const TensorExtents& e = output.extents;
  std::vector<WrittenRow> rows;
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.head; ++h)
      for (std::int64_t r = 0; r < e.row; ++r)
        if (output.is_written(b, r)) rows.push_back({b, h, r});
  return rows;
}

/// Calls body(index) for each of so many rows, on all threads where they are many elements.
void for_rows(std::size_t count, std::int64_t columns, FunctionRef<void(std::size_t)> body) {
  constexpr std::size_t kElements = std::size_t{1} << 15;
  const std::size_t together =
      std::max<std::size_t>(1, kElements / static_cast<std::size_t>(std::max<std::int64_t>(1, columns)));
  parallel_for((count + together - 1) / together, 0, [&](std::size_t part) {
    for (std::size_t at = part * together; at < std::min(count, (part + 1) * together); ++at) body(at);
  });
}

}  // namespace

RawArray<double> read_output(const OutputSpec& output, const void* data) {
  const std::int64_t columns = output.extents.column, step = output.strides.column;
  const std::vector<WrittenRow> rows = written_rows(output);
  RawArray<double> values(rows.size() * static_cast<std::size_t>(columns));
  for_rows(rows.size(), columns, [&](std::size_t at) {
    const std::int64_t start = rows[at].start(output.strides);
    double* const to = values.data() + at * static_cast<std::size_t>(columns);
    if (step == 1) {
      load_elements(output.type,
                    static_cast<const std::byte*>(data) + start * static_cast<std::int64_t>(size_of(output.type)),
                    std::span(to, static_cast<std::size_t>(columns)));
      return;
    }
    for (std::int64_t c = 0; c < columns; ++c)
      to[c] = load_element(output.type, data, static_cast<std::size_t>(start + c * step));
  });
  return values;
}

void copy_written(const OutputSpec& from, const void* source, const OutputSpec& to, void* destination) {
  const std::size_t width = size_of(from.type);
  const std::int64_t columns = from.extents.column, from_step = from.strides.column, to_step = to.strides.column;
  const std::vector<WrittenRow> rows = written_rows(from);
  for_rows(rows.size(), columns, [&](std::size_t at) {
    const auto* const read =
        static_cast<const std::byte*>(source) + rows[at].start(from.strides) * static_cast<std::int64_t>(width);
    auto* const write =
        static_cast<std::byte*>(destination) + rows[at].start(to.strides) * static_cast<std::int64_t>(width);
    if (from_step == 1 && to_step == 1) {
      std::memcpy(write, read, static_cast<std::size_t>(columns) * width);
      return;
    }
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(write + c * to_step * static_cast<std::int64_t>(width),
                  read + c * from_step * static_cast<std::int64_t>(width), width);
  });
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
