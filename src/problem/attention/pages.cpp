#include "problem/attention/pages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {

std::int64_t first_key_seen(const AttentionProblem& p, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  if (seqlen_q == 0) return seqlen_k;
  const MaskWindow window = window_of(p);
  if (window.left < 0) return 0;
  const std::int64_t diagonal = (window.bottom_right ? seqlen_k - seqlen_q : 0) + window.diagonal;
  return std::clamp<std::int64_t>(diagonal - window.left, 0, seqlen_k);
}

std::int64_t page_vector(const AttentionProblem& p) {
  return 16 / cache_bytes(p);
}

TsPagedKeys paged_keys(const AttentionProblem& p, const AttentionPages& pages) {
  return {pages.lengths, pages.numbers, pages.offsets, pages.stride, p.page_size, p.vectorized_pages};
}

bool lists_no_page(const AttentionPages& pages) {
  return pages.offsets != nullptr && pages.numbers == nullptr;
}

Status check_pages(const AttentionProblem& p, const AttentionArguments& a, DeviceKind device) {
  const AttentionPages& pages = a.pages;
  TS_TRY(check_pointer("pages.lengths", pages.lengths, p.batch > 0, "paged sequences have lengths of their own"));
  TS_TRY(check_dimension("pages.num_pages", pages.num_pages, 0));
  TS_TRY(check_dimension("pages.stride", pages.stride, 0));
  const bool listed = pages.numbers != nullptr || pages.offsets != nullptr;
  // An empty list may be null. On a device the lengths cannot be read here: there they are cut to none.
  const auto empty = [&] {
    if (is_gpu(device)) return !p.append;
    return std::all_of(pages.lengths, pages.lengths + p.batch, [](int n) { return n == 0; });
  };
  if (lists_no_page(pages) && !empty())
    return fail(ErrorCode::invalid_argument, "pages.offsets without pages.numbers", "the list that they lead into");
  if (p.batch > 0 && !listed && (p.seqlen_k > p.page_size || p.batch > pages.num_pages))
    return fail(ErrorCode::invalid_argument,
                fmt::format("no page numbers, for {} sequences of up to {} keys in {} pages of {}", p.batch, p.seqlen_k,
                            pages.num_pages, p.page_size),
                "page numbers, or a page for each sequence that holds all its keys");
  if (is_gpu(device)) return {};
  const bool group = p.mode == SequenceMode::group;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t length = pages.lengths[b];
    if (length < 0 || length > p.seqlen_k)
      return fail(ErrorCode::invalid_argument, fmt::format("pages.lengths[{}] is {}", b, length),
                  fmt::format("0 to {}, the problem's seqlen_k", p.seqlen_k));
    if (pages.numbers == nullptr) continue;
    const std::int64_t seqlen_q = group ? std::int64_t{a.cu_seqlens_q[b + 1]} - a.cu_seqlens_q[b] : p.seqlen_q;
    const std::int64_t first = first_key_seen(p, seqlen_q, length);
    if (first >= length) continue;
    const std::int64_t begin = pages.offsets != nullptr ? pages.offsets[b] : b * pages.stride;
    if (begin < 0)
      return fail(ErrorCode::invalid_argument, fmt::format("pages.offsets[{}] is {}", b, begin), "0 or more");
    const std::int32_t* numbers = pages.numbers + begin;
    // One pass without branches, for there may be a page for every key.
    bool fits = true;
    const std::int64_t last = (length - 1) / p.page_size;
    for (std::int64_t i = first / p.page_size; i <= last; ++i) fits &= numbers[i] >= 0 && numbers[i] < pages.num_pages;
    if (fits) continue;
    for (std::int64_t i = first / p.page_size; i <= last; ++i)
      if (numbers[i] < 0 || numbers[i] >= pages.num_pages)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("page {} of sequence {}, which has {} keys, is number {}", i, b, length, numbers[i]),
                    fmt::format("0 to {}, for there are {} pages", pages.num_pages - 1, pages.num_pages));
  }
  return {};
}

}  // namespace tilesmith
