#include "base/host_array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/parallel.hpp"

namespace tilesmith {

std::vector<float> HostArray::to_floats() const {
  std::vector<float> values(count());
  load_elements(type, data.data(), values);
  return values;
}

HostArray make_array(ElementType type, std::vector<std::int64_t> shape, std::span<const float> values) {
  HostArray array{type, std::move(shape), std::vector<std::byte>(values.size() * size_of(type))};
  constexpr std::size_t kTogether = std::size_t{1} << 15;
  parallel_for((values.size() + kTogether - 1) / kTogether, 0, [&](std::size_t part) {
    const std::size_t first = part * kTogether;
    store_elements(type, values.subspan(first, std::min(kTogether, values.size() - first)),
                   array.data.data() + first * size_of(type));
  });
  return array;
}

Result<std::uint64_t> byte_size(ElementType type, std::span<const std::int64_t> shape) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0)
      return fail(ErrorCode::parse, fmt::format("shape {} has the negative size {}", shape_text(shape), size));
    empty = empty || size == 0;
    overflow = __builtin_mul_overflow(bytes, size, &bytes) || overflow;
  }
  if (empty) return 0;
  if (overflow)
    return fail(ErrorCode::parse, fmt::format("shape {} has more elements than memory can", shape_text(shape)));
  return static_cast<std::uint64_t>(bytes);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace tilesmith
