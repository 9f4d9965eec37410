#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "dispatch/cpu_tasks.hpp"
#include "dispatch/serving/cpu.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kColumns = 256;  // that are summed at a time
constexpr std::int64_t kTaskRows = 16;  // a task is worth handing over

void merge_row(const MergeStates& c, ElementType type, std::int64_t b, std::int64_t h, std::int64_t i) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  const std::int64_t lse_at = offset(c.input_lse_strides, b, h, i);
  double top = kNothing;
  for (std::int64_t s = 0; s < c.states; ++s) {
    const double lse = static_cast<double>(c.lses[s][lse_at]);
    if (!(lse <= top)) top = lse;  // NaN too, so that it is not lost
  }
  const auto weight_of = [&](std::int64_t s) {
    const double lse = static_cast<double>(c.lses[s][lse_at]);
    return lse == kNothing ? 0.0 : std::exp(lse - top);
  };
  double total = 0;
  for (std::int64_t s = 0; s < c.states; ++s) total += weight_of(s);
  std::byte* const to = static_cast<std::byte*>(c.o) + offset(c.o_strides, b, h, i) * size;
  const std::int64_t from_at = offset(c.output_strides, b, h, i) * size;
  std::array<float, kColumns> sum, x;
  for (std::int64_t column = 0; column < c.head_dim; column += kColumns) {
    const auto count = static_cast<std::size_t>(std::min(kColumns, c.head_dim - column));
    std::fill_n(sum.begin(), count, 0.0F);
    for (std::int64_t s = 0; s < c.states; ++s) {
      const double weight = weight_of(s);
      if (weight == 0) continue;
      const auto share = static_cast<float>(weight / total);
      load_elements(type, static_cast<const std::byte*>(c.outputs[s]) + from_at + column * size,
                    std::span(x.data(), count));
      for (std::size_t e = 0; e < count; ++e) sum[e] += share * x[e];
    }
    store_elements(type, std::span<const float>(sum.data(), count), to + column * size);
  }
  if (c.lse != nullptr)
    c.lse[offset(c.lse_strides, b, h, i)] = static_cast<float>(top == kNothing ? kNothing : top + std::log(total));
}

}  // namespace

Status CpuMergeStates::run(const MergeStates& c, const RunOptions&) {
  const ElementType type = floating_element(c.data_type);
  const std::int64_t rows = c.batch * c.heads * c.seqlen;
  run_tasks(team_, (rows + kTaskRows - 1) / kTaskRows, [&](long long task) {
    for (std::int64_t row = task * kTaskRows; row < std::min<std::int64_t>(rows, (task + 1) * kTaskRows); ++row)
      merge_row(c, type, row / c.seqlen / c.heads, row / c.seqlen % c.heads, row % c.seqlen);
  });
  return {};
}

}  // namespace tilesmith
