#include "trial/gemm/data.hpp"

#include <cmath>

#include "base/parallel.hpp"

namespace tilesmith {

void let_halves_cancel(std::span<float> values, Side side, std::int64_t outer, std::int64_t inner, bool k_along) {
  constexpr std::int64_t kEvery = 4;
  constexpr std::int64_t kFewElements = 1 << 17;  // are done before another thread has started
  const std::int64_t depth = k_along ? inner : outer, lines = k_along ? outer : inner, half = depth / 2;
  const std::int64_t step = k_along ? 1 : inner, next = k_along ? inner : 1;
  if (outer * inner == 0) return;
  const unsigned threads = outer * inner <= kFewElements ? 1 : 0;
  for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(outer * inner)) {
    const auto cancel = [&](std::int64_t line, std::int64_t k) {
      const auto at = [&](std::int64_t place) -> float& {
        return values[first + static_cast<std::size_t>(line * next + place * step)];
      };
      const float before = at(k - half);
      const bool whole = before == std::trunc(before);  // of an integer type
      const float smaller = before * (15.0F / 16.0F);
      at(k) = side == Side::b ? before : whole ? -std::trunc(smaller) : -smaller;
    };
    // Row by row as the values lie.
    if (k_along)
      parallel_for(static_cast<std::size_t>(lines / kEvery), threads, [&](std::size_t task) {
        const std::int64_t line = (static_cast<std::int64_t>(task) + 1) * kEvery - 1;
        for (std::int64_t k = half; k < 2 * half; ++k) cancel(line, k);
      });
    else
      parallel_for(static_cast<std::size_t>(half), threads, [&](std::size_t task) {
        const std::int64_t k = half + static_cast<std::int64_t>(task);
        for (std::int64_t line = kEvery - 1; line < lines; line += kEvery) cancel(line, k);
      });
  }
}

}  // namespace tilesmith
