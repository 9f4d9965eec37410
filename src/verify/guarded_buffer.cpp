#include "verify/guarded_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kRedZone = 4096;  // longer than the widest overrun seen in practice: one tile row of 256 fp64
constexpr std::size_t kAlignment = 64;
constexpr std::byte kPattern{0xff};  // all ones is a NaN in every floating type, and -1 in an integer

}  // namespace

GuardedBuffer::GuardedBuffer(ElementType type, const TensorExtents& extents, const TensorStrides& strides)
    : type_(type), extents_(extents), strides_(strides) {
  if (extents.batch * extents.head * extents.row * extents.column > 0)
    size_ = size_of(type) *
            static_cast<std::size_t>(1 + (extents.batch - 1) * strides.batch + (extents.head - 1) * strides.head +
                                     (extents.row - 1) * strides.row + (extents.column - 1) * strides.column);
  storage_.assign(size_ + 2 * kRedZone + kAlignment, kPattern);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kRedZone;
  start_ = kRedZone + (kAlignment - address % kAlignment) % kAlignment;
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

std::optional<std::string> GuardedBuffer::damage(const RowFilter& wanted) const {
  // Blank what belongs to the tensor in a copy; then every byte must be the pattern.
  std::vector<std::byte> outside = storage_;
  const std::size_t width = size_of(type_);
  const auto blank = [&](std::int64_t element, std::int64_t count) {
    std::fill_n(outside.data() + start_ + static_cast<std::size_t>(element) * width,
                static_cast<std::size_t>(count) * width, kPattern);
  };
  // The thread sanitizer ends a forked child that starts threads, and small tensors need none.
  constexpr std::size_t kTogether = std::size_t{1} << 20;  // bytes that a thread looks through at a time
  const unsigned threads = outside.size() <= kTogether ? 1 : 0;
  parallel_for(static_cast<std::size_t>(extents_.batch * extents_.head), threads, [&](std::size_t head) {
    const auto b = static_cast<std::int64_t>(head) / extents_.head, h = static_cast<std::int64_t>(head) % extents_.head;
    for (std::int64_t r = 0; r < extents_.row; ++r) {
      if (wanted && !wanted(b, r)) continue;
      const std::int64_t first = b * strides_.batch + h * strides_.head + r * strides_.row;
      if (strides_.column == 1)
        blank(first, extents_.column);
      else
        for (std::int64_t c = 0; c < extents_.column; ++c) blank(first + c * strides_.column, 1);
    }
  });
  std::vector<std::size_t> firsts((outside.size() + kTogether - 1) / kTogether, outside.size());
  parallel_for(firsts.size(), threads, [&](std::size_t part) {
    const std::size_t begin = part * kTogether;
    const auto bytes = std::span(outside).subspan(begin, std::min(kTogether, outside.size() - begin));
    const auto found = std::ranges::find_if(bytes, [](std::byte byte) { return byte != kPattern; });
    if (found != bytes.end()) firsts[part] = begin + static_cast<std::size_t>(found - bytes.begin());
  });
  const std::size_t at = firsts.empty() ? outside.size() : *std::ranges::min_element(firsts);
  if (at == outside.size()) return std::nullopt;
  if (at < start_) return fmt::format("a byte {} bytes before the tensor's first element was written", start_ - at);
  if (at >= start_ + size_)
    return fmt::format("byte {} behind the tensor's last element was written", at - start_ - size_);
  return fmt::format("element {}, in a gap between rows or in a row left out, was written", (at - start_) / width);
}

}  // namespace tilesmith
