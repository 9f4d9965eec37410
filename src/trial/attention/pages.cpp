#include "trial/attention/pages.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "problem/attention/pages.hpp"

namespace tilesmith {

RandomPages random_pages(const AttentionProblem& p, std::span<const std::int32_t> cu_seqlens_q, RandomStream stream) {
  RandomPages out;
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(stream.below(draw++, static_cast<std::uint64_t>(bound)));
  };
  const auto pages_of = [&](std::int64_t keys) { return (keys + p.page_size - 1) / p.page_size; };
  const auto queries_of = [&](std::int64_t b) {
    const auto at = static_cast<std::size_t>(b);
    return cu_seqlens_q.empty() ? p.seqlen_q : std::int64_t{cu_seqlens_q[at + 1]} - cu_seqlens_q[at];
  };
  std::int64_t needed = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    std::int64_t length = b + 1 == p.batch ? p.seqlen_k : below(p.seqlen_k + 1);
    if (p.append && length < queries_of(b)) length = 0;
    out.lengths.push_back(static_cast<std::int32_t>(length));
    needed += pages_of(length);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(needed + p.batch));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  out.stride = pages_of(p.seqlen_k) + 1;
  out.numbers.assign(static_cast<std::size_t>(p.batch * out.stride), -1);
  out.rows_in_use.assign(order.size(), 0);
  auto next = order.begin();
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const std::int64_t length = out.lengths[at];
    std::int64_t first = first_key_seen(p, queries_of(b), length);
    if (p.append) first = std::min(first, length - queries_of(b));
    for (std::int64_t page = 0; page < pages_of(length); ++page) {
      const std::int64_t number = *next++;
      if ((page + 1) * p.page_size <= first) continue;
      out.numbers[static_cast<std::size_t>(b * out.stride + page)] = static_cast<std::int32_t>(number);
      out.rows_in_use[static_cast<std::size_t>(number)] = std::min(p.page_size, length - page * p.page_size);
    }
  }
  return out;
}

void poison_unused_rows(const RandomPages& pages, AttentionLayout layout, std::int64_t heads, std::int64_t page_size,
                        std::int64_t dim, std::span<float> values) {
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(dim)) {
    const std::int64_t line = static_cast<std::int64_t>(at) / dim;
    const auto page = static_cast<std::size_t>(line / (heads * page_size));
    const std::int64_t row = layout == AttentionLayout::bhsd ? line % page_size : line / heads % page_size;
    if (row >= pages.rows_in_use[page])
      std::ranges::fill(values.subspan(at, static_cast<std::size_t>(dim)), std::numeric_limits<float>::quiet_NaN());
  }
}

std::vector<std::byte> vectorized(std::span<const std::byte> rows, AttentionLayout layout, std::int64_t heads,
                                  std::int64_t page_size, std::int64_t dim, std::int64_t unit, bool along_dim) {
  const std::int64_t bytes = 16 / unit, elements = static_cast<std::int64_t>(rows.size()) / bytes;
  std::vector<std::byte> out(rows.size());
  for (std::int64_t at = 0; at < elements; ++at) {
    const std::int64_t column = at % dim, line = at / dim;
    const bool head_first = layout == AttentionLayout::bhsd;
    const std::int64_t row = head_first ? line % page_size : line / heads % page_size;
    const std::int64_t share = line / (heads * page_size) * heads + (head_first ? line / page_size : line) % heads;
    const std::int64_t within = along_dim ? (column / unit * page_size + row) * unit + column % unit
                                          : (row / unit * dim + column) * unit + row % unit;
    std::copy_n(rows.begin() + at * bytes, bytes, out.begin() + (share * page_size * dim + within) * bytes);
  }
  return out;
}

}  // namespace tilesmith
