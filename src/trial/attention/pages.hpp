// Random caches of pages for attention trials and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Pages in a random order with some that belong to nobody between them, and a table that leads to them. What a call
/// does not read is as bad as it may be: entries behind a sequence's last page, and before the first one that a query
/// sees, are no pages at all.
struct RandomPages {
  /// 0 to seqlen_k, the last one seqlen_k; where the call appends, no fewer than a sequence's queries, or 0
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> numbers;      ///< a row of `stride` entries for each sequence
  std::vector<std::int64_t> rows_in_use;  ///< of each page, from its first: those that hold keys
  std::int64_t stride = 0;

  [[nodiscard]] std::int64_t num_pages() const { return static_cast<std::int64_t>(rows_in_use.size()); }
};

/// Of a problem with a page_size. `cu_seqlens_q` is empty in batch mode.
[[nodiscard]] RandomPages random_pages(const AttentionProblem& problem, std::span<const std::int32_t> cu_seqlens_q,
                                       RandomStream stream);

/// Writes NaN over the rows that are not in use, in a dense tensor of (pages, heads, page_size, dim), or of (pages,
/// page_size, heads, dim).
void poison_unused_rows(const RandomPages& pages, AttentionLayout layout, std::int64_t heads, std::int64_t page_size,
                        std::int64_t dim, std::span<float> values);

/// Pages as rows, in the same layouts, rearranged into vectors of `unit` elements of so many bytes: (pages, heads, dim
/// / unit, page_size, unit) where `along_dim`, else (pages, heads, page_size / unit, dim, unit).
[[nodiscard]] std::vector<std::byte> vectorized(std::span<const std::byte> rows, AttentionLayout layout,
                                                std::int64_t heads, std::int64_t page_size, std::int64_t dim,
                                                std::int64_t unit, bool along_dim);

}  // namespace tilesmith
