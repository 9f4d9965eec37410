#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/serving/problem.hpp"
#include "problem/serving/types.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {
namespace {

Status check_rotary(const Rotary& r, std::int64_t head_dim) {
  if (r.dim == 0) return {};
  if (r.dim < 0 || r.dim > head_dim || r.dim % 2 != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("rotary.dim is {}, of heads of {}", r.dim, head_dim),
                "an even number up to head_dim_qk, or 0");
  if (r.style != RotaryStyle::half && r.style != RotaryStyle::interleaved)
    return fail(ErrorCode::invalid_argument, fmt::format("rotary.style is {}", static_cast<int>(r.style)),
                "a RotaryStyle");
  TS_TRY(check_dimension("rotary.positions", r.positions, 0));
  TS_TRY(check_strides("rotary", {{r.positions, r.row_stride}, {r.dim / 2, 1}}, 4));
  TS_TRY(check_pointer("rotary.cos", r.cos, r.positions > 0, "a table of cosines"));
  return check_pointer("rotary.sin", r.sin, r.positions > 0, "a table of sines");
}

/// The scales of a cache's row that a token is divided by.
Status check_row_scales(const AppendKv& c, std::int64_t page, std::int64_t row) {
  for (const auto& [name, scale] : {std::pair{"k_scale", &c.k_scale}, std::pair{"v_scale", &c.v_scale}})
    for (std::int64_t h = 0; h < c.heads_kv && scale->data != nullptr; ++h)
      if (const float value = scale->data[page * scale->batch + h * scale->head + row * scale->block];
          !(value > 0) || !std::isfinite(value))
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{} of row {} of page {}, head {} is {}", name, row, page, h, value),
                    "positive and finite");
  return {};
}

/// Everything that one token's row and position follow from.
Status check_token(const AppendKv& c, std::int64_t b, std::int64_t t, const NewTokens& tokens) {
  const std::int64_t token = tokens.first + t, row = tokens.row + t;
  if (c.rotary.dim > 0) {
    const std::int64_t position = c.positions != nullptr ? c.positions[token] : row;
    if (position < 0 || position >= c.rotary.positions)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("token {} of sequence {} has the position {}", t, b, position),
                  fmt::format("0 to {}, the rotary table's rows", c.rotary.positions - 1));
  }
  std::int64_t page = b, page_row = row;
  if (c.slots != nullptr) {
    if (c.slots[token] < 0) return {};
    page = c.slots[token] / c.page_size;
    page_row = c.slots[token] % c.page_size;
  } else if (c.pages.numbers != nullptr) {
    const std::int64_t begin = c.pages.offsets != nullptr ? c.pages.offsets[b] : b * c.pages.stride;
    if (begin < 0)
      return fail(ErrorCode::invalid_argument, fmt::format("pages.offsets[{}] is {}", b, begin), "0 or more");
    page = c.pages.numbers[begin + row / c.page_size];
    page_row = row % c.page_size;
  } else if (row >= c.page_size) {
    return fail(ErrorCode::invalid_argument, fmt::format("token {} of sequence {} goes to row {}", t, b, row),
                fmt::format("at most {}, the cache's last row", c.page_size - 1));
  }
  if (page < 0 || page >= c.pages.num_pages)
    return fail(ErrorCode::invalid_argument, fmt::format("token {} of sequence {} goes to page {}", t, b, page),
                fmt::format("0 to {}, for there are {} pages", c.pages.num_pages - 1, c.pages.num_pages));
  return c.page_scale ? check_row_scales(c, page, page_row) : Status{};
}

/// What is read of the caller's numbers: they are in memory that the host can read.
Status check_numbers(const AppendKv& c) {
  const bool group = c.mode == SequenceMode::group;
  if (group && c.cu_seqlens[0] != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("cu_seqlens[0] is {}", c.cu_seqlens[0]), "0");
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t length = group ? std::int64_t{c.cu_seqlens[b + 1]} - c.cu_seqlens[b] : c.seqlen;
    if (length < 0 || length > c.seqlen)
      return fail(ErrorCode::invalid_argument, fmt::format("cu_seqlens[{}] - cu_seqlens[{}] is {}", b + 1, b, length),
                  fmt::format("0 to {}", c.seqlen));
    if (c.pages.lengths != nullptr && c.pages.lengths[b] < 0)
      return fail(ErrorCode::invalid_argument, fmt::format("pages.lengths[{}] is {}", b, c.pages.lengths[b]),
                  "0 or more");
    if (c.lengths_after && c.pages.lengths != nullptr && c.pages.lengths[b] != 0 && c.pages.lengths[b] < length)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("sequence {} has {} keys, {} new ones included", b, c.pages.lengths[b], length),
                  fmt::format("{} or more, or 0 for a sequence that is padding", length));
    const NewTokens tokens = new_tokens(c, b);
    for (std::int64_t t = 0; t < tokens.count; ++t) TS_TRY(check_token(c, b, t, tokens));
  }
  if (group && c.total != 0 && c.cu_seqlens[c.batch] > c.total)
    return fail(ErrorCode::invalid_argument, fmt::format("cu_seqlens ends at {}", c.cu_seqlens[c.batch]),
                fmt::format("at most {}, the rows of k", c.total));
  return {};
}

Status check_scale(const AppendKv& c, std::string_view name, const AttentionScale& scale, DeviceKind device) {
  if (scale.data == nullptr) return {};
  if (c.cache == KvElements::as_queries)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is given, and the cache has no scale", name),
                "a cache of fp8 or int8, or no scale");
  if (c.page_scale)
    return check_strides(name, {{c.pages.num_pages, scale.batch}, {c.heads_kv, scale.head}, {c.page_size, scale.block}},
                         sizeof(float));
  if (scale.block != 0) return fail(ErrorCode::invalid_argument, fmt::format("{}.block is {}", name, scale.block), "0");
  if (is_gpu(device)) return {};
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads_kv; ++h)
      if (const float value = scale.data[b * scale.batch + h * scale.head]; !(value > 0) || !std::isfinite(value))
        return fail(ErrorCode::invalid_argument, fmt::format("{} of sequence {}, head {} is {}", name, b, h, value),
                    "positive and finite");
  return {};
}

Status check_row_scale(const AppendKv& c, std::string_view name, const float* scale, const AttentionStrides& s,
                       const AttentionScale& read) {
  if (scale == nullptr) return {};
  if (c.cache == KvElements::as_queries)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is given, and the cache has no scale", name),
                "a cache of fp8 or int8, or no scale");
  if (read.data != nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is given beside the scale that is read", name),
                "one of both");
  TS_TRY(
      check_strides(name, {{c.pages.num_pages, s.batch}, {c.heads_kv, s.head}, {c.page_size, s.row}}, sizeof(float)));
  return check_apart(name, {{{c.pages.num_pages, s.batch}, {c.heads_kv, s.head}, {c.page_size, s.row}, {1, 1}}});
}

Status check_scales(const AppendKv& c, DeviceKind device) {
  TS_TRY(check_scale(c, "k_scale", c.k_scale, device));
  TS_TRY(check_scale(c, "v_scale", c.v_scale, device));
  TS_TRY(check_row_scale(c, "k_row_scale", c.k_row_scale, c.k_row_scale_strides, c.k_scale));
  return check_row_scale(c, "v_row_scale", c.v_row_scale, c.v_row_scale_strides, c.v_scale);
}

Status check_cache(const AppendKv& c, const char* name, const void* data, AttentionStrides s, std::int64_t dim,
                   bool needed) {
  std::int64_t rows = c.page_size;
  if (c.vectorized_pages) {  // a head's share of a page is contiguous
    const std::int64_t unit = page_vector(c);
    if (c.page_size % unit != 0 || c.head_dim_qk % unit != 0)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("vectorized pages of {} keys, of {} elements", c.page_size, c.head_dim_qk),
                  fmt::format("page_size and head_dim_qk multiples of {}, the elements of 16 bytes", unit));
    dim *= rows;
    rows = 1;
    s.row = 0;
  }
  TS_TRY(check_pointer(name, data, needed, "a tensor of the call"));
  TS_TRY(check_strides(name, {{c.pages.num_pages, s.batch}, {c.heads_kv, s.head}, {rows, s.row}, {dim, 1}}, 4));
  return check_apart(name, {{{c.pages.num_pages, s.batch}, {c.heads_kv, s.head}, {rows, s.row}, {dim, 1}}});
}

}  // namespace

std::int64_t page_vector(const AppendKv& c) {
  return 16 / static_cast<std::int64_t>(size_of(cache_element(c.data_type, c.cache)));
}

Status validate(const AppendKv& call) {
  return validate(call, DeviceKind::cpu);
}

Status validate(const AppendKv& c, DeviceKind device) {
  TS_TRY(check_floating_type("append_kv", c.data_type));
  if (c.cache > KvElements::int8)
    return fail(ErrorCode::invalid_argument, fmt::format("cache is {}", static_cast<int>(c.cache)), "a KvElements");
  TS_TRY(check_dimension("batch", c.batch, 0));
  TS_TRY(check_dimension("heads_kv", c.heads_kv, 1));
  TS_TRY(check_dimension("heads_q", c.heads_q, 0));
  TS_TRY(check_dimension("seqlen", c.seqlen, 0));
  TS_TRY(check_dimension("total", c.total, 0));
  TS_TRY(check_dimension("head_dim_qk", c.head_dim_qk, 1));
  TS_TRY(check_dimension("head_dim_v", c.head_dim_v, 1));
  TS_TRY(check_dimension("page_size", c.page_size, 1));
  TS_TRY(check_dimension("pages.num_pages", c.pages.num_pages, 0));
  TS_TRY(check_dimension("pages.stride", c.pages.stride, 0));
  TS_TRY(check_rotary(c.rotary, c.head_dim_qk));
  if (c.page_scale && c.cache == KvElements::as_queries)
    return fail(ErrorCode::invalid_argument, "page_scale of a cache that has no scale", "a cache of fp8 or int8");
  const bool group = c.mode == SequenceMode::group;
  TS_TRY(check_pointer("cu_seqlens", c.cu_seqlens, group, "group mode reads batch + 1 offsets"));
  const bool needs_lengths = c.slots == nullptr || (c.rotary.dim > 0 && c.positions == nullptr);
  TS_TRY(check_pointer("pages.lengths", c.pages.lengths, c.batch > 0 && needs_lengths,
                       "the keys of each sequence, or slots and positions"));
  if (!is_gpu(device)) {
    TS_TRY(check_numbers(c));
  } else {
    TS_TRY(check_dimension("total", c.total, group && c.batch > 0 && c.seqlen > 0 ? 1 : 0));
    if (!product_fits({c.batch, c.seqlen, c.heads_q + 2 * c.heads_kv}))
      return fail(ErrorCode::invalid_argument, fmt::format("{} sequences of {} new tokens", c.batch, c.seqlen),
                  "fewer");
  }
  TS_TRY(check_scales(c, device));
  const std::int64_t members = group ? 1 : c.batch;
  const std::int64_t rows = !group ? c.seqlen : !is_gpu(device) ? c.cu_seqlens[c.batch] : total_tokens(c);
  const auto check = [&](const char* name, const void* data, std::int64_t count, const AttentionStrides& s,
                         std::int64_t heads, std::int64_t length, std::int64_t dim) -> Status {
    TS_TRY(check_pointer(name, data, members > 0 && rows > 0 && heads > 0, "a tensor of the call"));
    return check_strides(name, {{count, s.batch}, {heads, s.head}, {length, s.row}, {dim, 1}}, 4);
  };
  TS_TRY(check("k", c.k, members, c.k_strides, c.heads_kv, rows, c.head_dim_qk));
  TS_TRY(check("v", c.v, members, c.v_strides, c.heads_kv, rows, c.head_dim_v));
  TS_TRY(check("q", c.q, members, c.q_strides, c.heads_q, rows, c.head_dim_qk));
  TS_TRY(check("q_out", c.q_out, members, c.q_out_strides, c.heads_q, rows, c.head_dim_qk));
  const AttentionStrides& turned = c.q_out_strides;
  if (c.heads_q > 0)
    TS_TRY(check_apart("q_out",
                       {{{members, turned.batch}, {c.heads_q, turned.head}, {rows, turned.row}, {c.head_dim_qk, 1}}}));
  TS_TRY(check_cache(c, "k_cache", c.k_cache, c.k_cache_strides, c.head_dim_qk, members > 0 && rows > 0));
  return check_cache(c, "v_cache", c.v_cache, c.v_cache_strides, c.head_dim_v, members > 0 && rows > 0);
}

}  // namespace tilesmith
