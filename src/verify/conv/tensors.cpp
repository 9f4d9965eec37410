#include "verify/conv/tensors.hpp"

namespace tilesmith {
namespace {

std::int64_t count_of(const Coordinates& size) {
  return size[0] * size[1] * size[2];
}

Coordinates coordinates_of(std::int64_t number, const Coordinates& size) {
  return {number / (size[1] * size[2]), number / size[2] % size[1], number % size[2]};
}

/// The pixel of x that a pixel of y meets at a tap, and whether it lies inside.
bool met_by_y(const ConvTensors& t, const Coordinates& o, const Coordinates& tap, Coordinates& i) {
  bool inside = true;
  for (std::size_t d = 0; d < 3; ++d) {
    i[d] = o[d] * t.stride[d] + tap[d] * t.dilation[d] - t.pad[d];
    inside = inside && i[d] >= 0 && i[d] < t.in[d];
  }
  return inside;
}

/// The pixel of y that meets a pixel of x at a tap, and whether there is one.
bool met_by_x(const ConvTensors& t, const Coordinates& i, const Coordinates& tap, Coordinates& o) {
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t distance = i[d] + t.pad[d] - tap[d] * t.dilation[d];
    if (distance < 0 || distance % t.stride[d] != 0) return false;
    o[d] = distance / t.stride[d];
    if (o[d] >= t.out[d]) return false;
  }
  return true;
}

}  // namespace

double ConvTensorView::at(std::int64_t n, std::int64_t g, std::int64_t c, const Coordinates& pixel) const {
  return load_element(type, data,
                      static_cast<std::size_t>(n * batch + g * group + c * channel + pixel[0] * spatial[0] +
                                               pixel[1] * spatial[1] + pixel[2] * spatial[2]));
}

std::int64_t ConvTensors::rows() const {
  if (direction == ConvDirection::backward_weight) return k;
  return batch * count_of(direction == ConvDirection::forward ? out : in);
}

std::int64_t ConvTensors::columns() const {
  if (direction == ConvDirection::backward_weight) return count_of(filter) * c;
  return direction == ConvDirection::forward ? k : c;
}

std::int64_t ConvTensors::depth() const {
  if (direction == ConvDirection::backward_weight) return batch * count_of(out);
  return count_of(filter) * (direction == ConvDirection::forward ? c : k);
}

double ConvTensors::left(std::int64_t group, std::int64_t row, std::int64_t p) const {
  const std::int64_t pixels = count_of(out);
  if (direction == ConvDirection::backward_weight) return y.at(p / pixels, group, row, coordinates_of(p % pixels, out));
  Coordinates met;
  if (direction == ConvDirection::forward) {
    const Coordinates tap = coordinates_of(p / c, filter);
    return met_by_y(*this, coordinates_of(row % pixels, out), tap, met) ? x.at(row / pixels, group, p % c, met) : 0;
  }
  const Coordinates tap = coordinates_of(p / k, filter);
  const std::int64_t images = count_of(in);
  return met_by_x(*this, coordinates_of(row % images, in), tap, met) ? y.at(row / images, group, p % k, met) : 0;
}

double ConvTensors::right(std::int64_t group, std::int64_t p, std::int64_t column) const {
  if (direction == ConvDirection::forward) return w.at(column, group, p % c, coordinates_of(p / c, filter));
  if (direction == ConvDirection::backward_data) return w.at(p % k, group, column, coordinates_of(p / k, filter));
  const std::int64_t pixels = count_of(out);
  Coordinates met;
  if (!met_by_y(*this, coordinates_of(p % pixels, out), coordinates_of(column / c, filter), met)) return 0;
  return x.at(p / pixels, group, column % c, met);
}

double ConvTensors::operand(const ConvStep& step, std::int64_t group, std::int64_t row, std::int64_t column) const {
  const Coordinates& size = direction == ConvDirection::forward ? out : in;
  const std::int64_t pixels = count_of(size);
  return step.operand.at(row / pixels, group, column, coordinates_of(row % pixels, size));
}

std::size_t ConvTensors::place(std::int64_t group, std::int64_t row, std::int64_t column) const {
  if (direction == ConvDirection::backward_weight)
    return static_cast<std::size_t>((group * rows() + row) * columns() + column);
  return static_cast<std::size_t>((row * groups + group) * columns() + column);
}

}  // namespace tilesmith
