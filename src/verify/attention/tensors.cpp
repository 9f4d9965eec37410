#include "verify/attention/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/philox.hpp"

namespace tilesmith {
namespace {

/// The number of the page that key j of sequence b is in; -1 where the sequence's only page ends before.
std::int64_t page_of(const AttentionTensors& tensors, std::int64_t b, std::int64_t j) {
  const PageTable& pages = tensors.pages;
  if (pages.numbers == nullptr) return j < pages.page_size ? b : -1;
  const std::int64_t begin = pages.offsets == nullptr ? b * pages.stride : pages.offsets[b];
  return pages.numbers[begin + j / pages.page_size];
}

/// The keys [first, last) that some query of the sequence sees.
std::pair<std::int64_t, std::int64_t> keys_seen(const AttentionTensors& tensors, const SequenceSpan& sequence) {
  std::pair<std::int64_t, std::int64_t> all{sequence.seqlen_k, 0};
  for (std::int64_t i = 0; i < sequence.seqlen_q; ++i) {
    const auto [first, last] = visible_keys(tensors, sequence, i);
    if (first >= last) continue;
    all = {std::min(all.first, first), std::max(all.second, last)};
  }
  return all;
}

Status check_offsets(const char* name, const std::int32_t* offsets, std::int64_t batch, std::int64_t longest) {
  if (offsets[0] != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("{}[0] is {}", name, offsets[0]), "offsets start at 0");
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = std::int64_t{offsets[b + 1]} - offsets[b];
    if (length < 0 || length > longest)
      return fail(ErrorCode::invalid_argument, fmt::format("{}[{}] - {}[{}] is {}", name, b + 1, name, b, length),
                  fmt::format("a sequence has 0 to {} rows", longest));
  }
  return {};
}

/// Every key of every sequence that some query sees lies in a page that exists.
Status check_pages(const AttentionTensors& tensors) {
  const PageTable& pages = tensors.pages;
  if (tensors.batch > 0 && pages.lengths == nullptr)
    return fail(ErrorCode::invalid_argument, "pages without lengths", "the keys of each sequence");
  for (std::int64_t b = 0; b < tensors.batch; ++b) {
    const SequenceSpan sequence = sequence_of(tensors, b);
    if (sequence.seqlen_k < 0 || sequence.seqlen_k > tensors.seqlen_k)
      return fail(ErrorCode::invalid_argument, fmt::format("sequence {} has {} keys", b, sequence.seqlen_k),
                  fmt::format("0 to {}", tensors.seqlen_k));
    const auto [first, last] = keys_seen(tensors, sequence);
    for (std::int64_t j = first; j < last; ++j)
      if (const std::int64_t page = page_of(tensors, b, j); page < 0 || page >= pages.num_pages)
        return fail(ErrorCode::invalid_argument, fmt::format("key {} of sequence {} is in page {}", j, b, page),
                    fmt::format("0 to {}", pages.num_pages - 1));
  }
  return {};
}

}  // namespace

Status check_tensors(const AttentionTensors& tensors) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"batch", tensors.batch},          {"heads_q", tensors.heads_q},   {"heads_kv", tensors.heads_kv},
      {"seqlen_q", tensors.seqlen_q},    {"seqlen_k", tensors.seqlen_k}, {"head_dim_qk", tensors.head_dim_qk},
      {"head_dim_v", tensors.head_dim_v}};
  for (const auto& [name, size] : sizes)
    if (size < 0) return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, size), "sizes are 0 or more");
  if (tensors.heads_kv == 0 || tensors.heads_q % tensors.heads_kv != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("heads_q is {}, heads_kv is {}", tensors.heads_q, tensors.heads_kv),
                "heads_kv must divide heads_q");
  if (tensors.drop_threshold > 65535)
    return fail(ErrorCode::invalid_argument, fmt::format("drop_threshold is {}", tensors.drop_threshold), "0 to 65535");
  const bool paged = tensors.pages.page_size > 0;
  if (!paged && (tensors.cu_seqlens_q == nullptr) != (tensors.cu_seqlens_k == nullptr))
    return fail(ErrorCode::invalid_argument, "only one of cu_seqlens_q and cu_seqlens_k is given",
                "group mode needs both, batch mode neither");
  if (tensors.group_mode()) {
    TS_TRY(check_offsets("cu_seqlens_q", tensors.cu_seqlens_q, tensors.batch, tensors.seqlen_q));
    if (!paged) TS_TRY(check_offsets("cu_seqlens_k", tensors.cu_seqlens_k, tensors.batch, tensors.seqlen_k));
  }
  if (paged) TS_TRY(check_pages(tensors));
  const std::pair<const char*, const TensorView*> views[] = {{"q", &tensors.q}, {"k", &tensors.k}, {"v", &tensors.v}};
  for (const auto& [name, view] : views)
    if (!is_floating(view->type) && (view->type != ElementType::int8 || view == &tensors.q))
      return fail(ErrorCode::invalid_argument, fmt::format("{} holds {}", name, to_string(view->type)),
                  "attention is computed on floating-point tensors, and on int8 keys and values");
  if (tensors.q.data == nullptr && output_rows(tensors) * tensors.head_dim_qk > 0)
    return fail(ErrorCode::invalid_argument, "q has elements but no data");
  const bool has_keys = tensors.batch * tensors.seqlen_k > 0;
  if (has_keys && tensors.k.data == nullptr && tensors.head_dim_qk > 0)
    return fail(ErrorCode::invalid_argument, "k has elements but no data");
  if (has_keys && tensors.v.data == nullptr && tensors.head_dim_v > 0)
    return fail(ErrorCode::invalid_argument, "v has elements but no data");
  return {};
}

SequenceSpan sequence_of(const AttentionTensors& tensors, std::int64_t b) {
  SequenceSpan span{0, 0, tensors.seqlen_q, tensors.seqlen_k};
  if (tensors.group_mode()) {
    const std::int32_t* q = tensors.cu_seqlens_q + b;
    span.q_begin = q[0];
    span.seqlen_q = std::int64_t{q[1]} - q[0];
  }
  if (tensors.pages.page_size > 0) {
    span.seqlen_k = tensors.pages.lengths[b];
  } else if (tensors.group_mode()) {
    const std::int32_t* k = tensors.cu_seqlens_k + b;
    span.k_begin = k[0];
    span.seqlen_k = std::int64_t{k[1]} - k[0];
  }
  return span;
}

std::int64_t key_offset(const AttentionTensors& tensors, const TensorView& view, std::int64_t b, std::int64_t head_kv,
                        std::int64_t j) {
  const TensorStrides& strides = view.strides;
  const std::int64_t page_size = tensors.pages.page_size;
  if (page_size > 0)
    return page_of(tensors, b, j) * strides.batch + head_kv * strides.head + j % page_size * strides.row;
  const std::int64_t begin = tensors.group_mode() ? tensors.cu_seqlens_k[b] * strides.row : b * strides.batch;
  return begin + head_kv * strides.head + j * strides.row;
}

double key_scale(const AttentionTensors& tensors, const TensorView& view, std::int64_t b, std::int64_t head_kv,
                 std::int64_t j) {
  if (view.scale.by_page) return view.scale.at(page_of(tensors, b, j), head_kv, j % tensors.pages.page_size);
  return view.scale.at(b, head_kv, j);
}

std::int64_t query_offset(const AttentionTensors& tensors, const TensorView& view, std::int64_t b, std::int64_t head,
                          std::int64_t i) {
  const TensorStrides& strides = view.strides;
  const std::int64_t begin = tensors.group_mode() ? tensors.cu_seqlens_q[b] * strides.row : b * strides.batch;
  return begin + head * strides.head + i * strides.row;
}

std::pair<std::int64_t, std::int64_t> visible_keys(const AttentionTensors& tensors, const SequenceSpan& sequence,
                                                   std::int64_t i) {
  // A window wider than both lengths and the diagonal together bounds nothing; cutting it there keeps the sums below
  // from overflowing.
  const std::int64_t widest = sequence.seqlen_q + sequence.seqlen_k + std::abs(tensors.diagonal);
  const std::int64_t diagonal = i + sequence.diagonal_offset(tensors.mask_bottom_right) + tensors.diagonal;
  std::int64_t first = 0;
  std::int64_t last = sequence.seqlen_k;
  if (tensors.window_left >= 0) first = std::max(first, diagonal - std::min(tensors.window_left, widest));
  if (tensors.window_right >= 0) last = std::min(last, diagonal + std::min(tensors.window_right, widest) + 1);
  return {first, last};
}

bool keeps(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const PhiloxCounter words =
      philox4x32({static_cast<std::uint32_t>(j / 8), static_cast<std::uint32_t>(i),
                  static_cast<std::uint32_t>(b * tensors.heads_q + h), static_cast<std::uint32_t>(tensors.offset)},
                 {static_cast<std::uint32_t>(tensors.seed),
                  static_cast<std::uint32_t>(tensors.seed >> 32) ^ static_cast<std::uint32_t>(tensors.offset >> 32)});
  const auto value = j % 8;
  return (words[static_cast<std::size_t>(value / 2)] >> (value % 2 * 16) & 0xffff) >= tensors.drop_threshold;
}

std::int64_t output_rows(const AttentionTensors& tensors) {
  return tensors.heads_q *
         (tensors.group_mode() ? tensors.cu_seqlens_q[tensors.batch] : tensors.batch * tensors.seqlen_q);
}

std::int64_t output_row(const AttentionTensors& tensors, std::int64_t b, std::int64_t h, std::int64_t i) {
  if (!tensors.group_mode()) return (b * tensors.heads_q + h) * tensors.seqlen_q + i;
  return h * tensors.cu_seqlens_q[tensors.batch] + tensors.cu_seqlens_q[b] + i;
}

RowPosition row_position(const AttentionTensors& tensors, std::int64_t row) {
  if (!tensors.group_mode())
    return {row / tensors.seqlen_q / tensors.heads_q, row / tensors.seqlen_q % tensors.heads_q, row % tensors.seqlen_q};
  const std::int64_t total = tensors.cu_seqlens_q[tensors.batch];
  const std::int32_t* after =
      std::upper_bound(tensors.cu_seqlens_q, tensors.cu_seqlens_q + tensors.batch + 1, row % total);
  const std::int64_t b = after - tensors.cu_seqlens_q - 1;
  return {b, row / total, row % total - tensors.cu_seqlens_q[b]};
}

}  // namespace tilesmith
