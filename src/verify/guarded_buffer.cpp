#include "verify/guarded_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/parallel.hpp"

namespace tilesmith {
namespace {

constexpr std::byte kPattern{0xff};  // all ones is a NaN in every floating type, and -1 in an integer

}  // namespace

GuardedBuffer::GuardedBuffer(ElementType type, const TensorExtents& extents, const TensorStrides& strides)
    : type_(type), extents_(extents), strides_(strides) {
  if (extents.batch * extents.head * extents.row * extents.column > 0)
    size_ = size_of(type) *
            static_cast<std::size_t>(1 + (extents.batch - 1) * strides.batch + (extents.head - 1) * strides.head +
                                     (extents.row - 1) * strides.row + (extents.column - 1) * strides.column);
  storage_.reserve(size_ + 2 * kRedZone);
  // The thread sanitizer ends a forked child that starts threads, and small tensors need none.
  constexpr std::size_t kTogether = std::size_t{1} << 20;
  const std::span<std::byte> all = storage();
  parallel_for((all.size() + kTogether - 1) / kTogether, all.size() <= kTogether ? 1 : 0, [&](std::size_t part) {
    std::ranges::fill(all.subspan(part * kTogether, std::min(kTogether, all.size() - part * kTogether)), kPattern);
  });
}

template <class Visit>
void GuardedBuffer::for_each_row(Visit visit) const {
  for (std::int64_t b = 0; b < extents_.batch; ++b)
    for (std::int64_t h = 0; h < extents_.head; ++h)
      for (std::int64_t r = 0; r < extents_.row; ++r)
        visit(b * strides_.batch + h * strides_.head + r * strides_.row,
              ((b * extents_.head + h) * extents_.row + r) * extents_.column);
}

void GuardedBuffer::fill(std::span<const float> values) {
  for_each_row([&](std::int64_t offset, std::int64_t dense) {
    for (std::int64_t c = 0; c < extents_.column; ++c)
      store_element(type_, data(), static_cast<std::size_t>(offset + c * strides_.column),
                    static_cast<double>(values[static_cast<std::size_t>(dense + c)]));
  });
}

std::vector<GuardedBuffer::Run> GuardedBuffer::runs(const RowFilter& wanted) const {
  std::vector<Run> found;
  if (size_ == 0) return found;
  const TensorExtents& e = extents_;
  const auto run_at = [&](std::int64_t element, std::int64_t count) { found.push_back({element, element + count}); };
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.head; ++h) {
      const std::int64_t first = b * strides_.batch + h * strides_.head;
      if (strides_.row == 1 && strides_.column != 1 && !wanted) {
        for (std::int64_t c = 0; c < e.column; ++c) run_at(first + c * strides_.column, e.row);
        continue;
      }
      for (std::int64_t r = 0; r < e.row; ++r) {
        if (wanted && !wanted(b, r)) continue;
        const std::int64_t row = first + r * strides_.row;
        if (strides_.column == 1)
          run_at(row, e.column);
        else
          for (std::int64_t c = 0; c < e.column; ++c) run_at(row + c * strides_.column, 1);
      }
    }
  if (!std::ranges::is_sorted(found, {}, &Run::begin)) std::ranges::sort(found, {}, &Run::begin);
  return found;
}

std::optional<std::string> GuardedBuffer::damage(const RowFilter& wanted) const {
  const std::size_t width = size_of(type_), count = size_ + 2 * kRedZone;
  const std::byte* const bytes = storage_.data();
  // All that is between runs must be the pattern: it begins with it, and each byte is as the one before.
  const auto changed = [&](std::size_t begin, std::size_t end) -> std::optional<std::size_t> {
    if (begin >= end) return std::nullopt;
    if (bytes[begin] == kPattern && std::memcmp(bytes + begin, bytes + begin + 1, end - begin - 1) == 0)
      return std::nullopt;
    return static_cast<std::size_t>(
        std::find_if(bytes + begin, bytes + end, [](std::byte b) { return b != kPattern; }) - bytes);
  };
  std::size_t behind = 0;  // the bytes before it were looked at, or belong to the tensor
  std::optional<std::size_t> found;
  for (const Run& run : runs(wanted)) {
    found = changed(behind, kRedZone + static_cast<std::size_t>(run.begin) * width);
    if (found) break;
    behind = std::max(behind, kRedZone + static_cast<std::size_t>(run.end) * width);
  }
  if (!found) found = changed(behind, count);
  if (!found) return std::nullopt;
  const std::size_t at = *found;
  if (at < kRedZone) return fmt::format("a byte {} bytes before the tensor's first element was written", kRedZone - at);
  if (at >= kRedZone + size_)
    return fmt::format("byte {} behind the tensor's last element was written", at - kRedZone - size_);
  return fmt::format("element {}, in a gap between rows or in a row left out, was written", (at - kRedZone) / width);
}

}  // namespace tilesmith
