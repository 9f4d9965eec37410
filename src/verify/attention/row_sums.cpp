#include "verify/attention/row_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "verify/signed_sums.hpp"

namespace tilesmith {
namespace {

/// V's sums, dense: batch x heads_kv x seqlen_k x blocks.
std::vector<double> sums_of_values(const AttentionTensors& t, std::int64_t blocks, std::span<const double> signs,
                                   unsigned threads) {
  std::vector<double> sums(static_cast<std::size_t>(t.batch * t.heads_kv * t.seqlen_k * blocks));
  parallel_for(static_cast<std::size_t>(t.batch * t.heads_kv), threads, [&](std::size_t at) {
    const std::int64_t b = static_cast<std::int64_t>(at) / t.heads_kv, h = static_cast<std::int64_t>(at) % t.heads_kv;
    std::vector<double> row(static_cast<std::size_t>(t.head_dim_v));
    for (std::int64_t j = 0; j < t.seqlen_k; ++j) {
      const std::int64_t from = key_offset(t, t.v, b, h, j);
      if (t.v.strides.column == 1)
        load_elements(t.v.type,
                      static_cast<const std::byte*>(t.v.data) + from * static_cast<std::int64_t>(size_of(t.v.type)),
                      std::span(row));
      else
        for (std::size_t c = 0; c < row.size(); ++c)
          row[c] = load_element(t.v.type, t.v.data,
                                static_cast<std::size_t>(from) + c * static_cast<std::size_t>(t.v.strides.column));
      const double scale = key_scale(t, t.v, b, h, j);
      double* const to = sums.data() + ((b * t.heads_kv + h) * t.seqlen_k + j) * blocks;
      for (std::size_t c = 0; c < row.size(); ++c) to[c / kSignedBlock] += signs[c] * scale * row[c];
    }
  });
  return sums;
}

}  // namespace

bool AttentionRowSums::apply_to(const AttentionTolerance& tolerance, ElementType output_type) {
  return tolerance.bounded && (output_type == ElementType::bf16 || output_type == ElementType::fp16);
}

AttentionRowSums::AttentionRowSums(const AttentionTensors& tensors, ElementType output_type,
                                   const AttentionTolerance& tolerance)
    : tensors_(tensors),
      output_type_(output_type),
      tolerance_(tolerance),
      blocks_((tensors.head_dim_v + kSignedBlock - 1) / kSignedBlock),
      signs_(column_signs(tensors.head_dim_v)) {}

Result<AttentionRowSums> AttentionRowSums::make(const AttentionTensors& tensors, ElementType output_type,
                                                const AttentionTolerance& tolerance, unsigned threads) {
  AttentionRowSums made(tensors, output_type, tolerance);
  const std::vector<double> values = sums_of_values(tensors, made.blocks_, made.signs_, threads);
  AttentionTensors summed = tensors;
  summed.head_dim_v = made.blocks_;
  summed.v = {.data = values.data(),
              .type = ElementType::fp64,
              .strides = {.batch = tensors.heads_kv * tensors.seqlen_k * made.blocks_,
                          .head = tensors.seqlen_k * made.blocks_,
                          .row = made.blocks_,
                          .column = 1}};
  TS_ASSIGN(made.float64_, float64_attention(summed, threads));
  return made;
}

std::optional<std::string> AttentionRowSums::refusal(std::span<const double> o) const {
  constexpr std::int64_t kTogether = 128;
  const auto rows = static_cast<std::int64_t>(float64_.lse.size());
  std::vector<std::optional<std::string>> refusals(static_cast<std::size_t>((rows + kTogether - 1) / kTogether));
  parallel_for(refusals.size(), 0, [&](std::size_t task) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kTogether;
    for (std::int64_t row = first; row < std::min(rows, first + kTogether) && !refusals[task]; ++row)
      refusals[task] = refusal_of_row(o, row);
  });
  const auto found = std::ranges::find_if(refusals, [](const auto& refusal) { return refusal.has_value(); });
  return found == refusals.end() ? std::nullopt : *found;
}

std::optional<std::string> AttentionRowSums::refusal_of_row(std::span<const double> o, std::int64_t row) const {
  const std::int64_t width = tensors_.head_dim_v;
  const RowPosition at = row_position(tensors_, row);
  const auto [first, last] = visible_keys(tensors_, sequence_of(tensors_, at.b), at.i);
  ElementTerms terms{.magnitude = static_cast<double>(float64_.magnitude[static_cast<std::size_t>(row)]),
                     .keys = std::max<std::int64_t>(0, last - first)};
  const double u = unit_roundoff(output_type_);
  for (std::int64_t block = 0; block < blocks_; ++block) {
    const std::int64_t begin = block * kSignedBlock, end = std::min(width, begin + kSignedBlock);
    double got = 0, size = 0;
    for (std::int64_t c = begin; c < end; ++c) {
      const double x = o[static_cast<std::size_t>(row * width + c)];
      got += signs_[static_cast<std::size_t>(c)] * x;
      size += std::abs(x);
    }
    const auto sum = static_cast<std::size_t>(row * blocks_ + block);
    const double want = float64_.o[sum];
    terms.value = std::abs(want);
    terms.spread = static_cast<double>(float64_.spread[sum]);
    // The elements share the errors of their row's weights, and each is rounded: check B's limits, with the elements'
    // sizes in place of the sum's in what rounding them costs.
    const double limit = attention_bound(tolerance_, output_type_, terms) + 2 * u * size / (1 - u) +
                         static_cast<double>(end - begin) * smallest_subnormal(output_type_);
    if (std::abs(got - want) <= limit) continue;
    return fmt::format(
        "[batch {}, head {}, row {}, columns {} to {}] add up to {:.9g} with signs, the reference to {:.9g}: off by "
        "{:.3g}, at most {:.3g}",
        at.b, at.h, at.i, begin, end - 1, got, want, std::abs(got - want), limit);
  }
  return std::nullopt;
}

}  // namespace tilesmith
