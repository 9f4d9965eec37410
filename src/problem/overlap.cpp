#include "problem/overlap.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

/// Bytes from the first element to the end of the last, of dimensions that `counts` takes.
template <class Counts>
std::int64_t extent(const StridedMemory& x, Counts counts) {
  std::int64_t bytes = x.element_bytes;
  for (const SizeAndStride& each : x.dimensions)
    if (each.size > 1 && counts(each.stride * x.element_bytes))
      bytes += (each.size - 1) * each.stride * x.element_bytes;
  return bytes;
}

/// Whether in each period of this many bytes there is a part for x and another for y. `difference`: from x's first byte
/// to y's.
bool lie_side_by_side(const StridedMemory& x, const StridedMemory& y, std::int64_t difference, std::int64_t period) {
  const auto within = [&](std::int64_t stride) { return stride % period != 0; };
  const std::int64_t of_x = extent(x, within), of_y = extent(y, within);
  const std::int64_t offset = ((difference % period) + period) % period;
  return offset >= of_x && offset + of_y <= period;
}

}  // namespace

bool may_overlap(const StridedMemory& x, const StridedMemory& y) {
  for (const StridedMemory* each : {&x, &y})
    if (std::ranges::any_of(each->dimensions, [](const SizeAndStride& d) { return d.size == 0; })) return false;
  const auto all = [](std::int64_t) { return true; };
  const std::int64_t difference = reinterpret_cast<std::intptr_t>(y.data) - reinterpret_cast<std::intptr_t>(x.data);
  if (difference >= extent(x, all) || -difference >= extent(y, all)) return false;
  for (const StridedMemory* each : {&x, &y})
    for (const SizeAndStride& d : each->dimensions)
      if (d.size > 1 && d.stride > 0 && lie_side_by_side(x, y, difference, d.stride * each->element_bytes))
        return false;
  return true;
}

}  // namespace tilesmith
