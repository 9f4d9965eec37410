#include "problem/attention/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "problem/argument_checks.hpp"
#include "problem/attention/append.hpp"
#include "problem/attention/kernel_arguments.hpp"
#include "problem/attention/pages.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMaxHeadDim = UINT16_MAX;  // what a signature can say

/// The sum over i = 0 .. count-1 of i + from, each term cut to 0 .. limit.
double sum_of_cut(std::int64_t count, std::int64_t from, std::int64_t limit) {
  const std::int64_t rises = std::clamp<std::int64_t>(-from, 0, count);  // first i whose term is not below 0
  const std::int64_t full =
      std::clamp<std::int64_t>(limit - from, 0, count);  // first i whose term is not below the limit
  const auto steps = static_cast<double>(full - rises);
  return steps * (static_cast<double>(rises + full - 1) / 2 + static_cast<double>(from)) +
         static_cast<double>(count - full) * static_cast<double>(limit);
}

/// Pairs a (seqlen_q, seqlen_k) rectangle has inside the window: keys up to each row's right bound less those before
/// its left bound.
double pairs_in_window(std::int64_t seqlen_q, std::int64_t seqlen_k, const MaskWindow& window) {
  const auto all = static_cast<double>(seqlen_q) * static_cast<double>(seqlen_k);
  const std::int64_t offset = (window.bottom_right ? seqlen_k - seqlen_q : 0) + window.diagonal;
  const double up_to_last = window.right < 0 ? all : sum_of_cut(seqlen_q, offset + window.right + 1, seqlen_k);
  const double before_first = window.left < 0 ? 0 : sum_of_cut(seqlen_q, offset - window.left, seqlen_k);
  return up_to_last - before_first;
}

}  // namespace

Status validate(const AttentionProblem& p) {
  constexpr std::array kTypes{DataType::fp32, DataType::tf32,    DataType::fp16,
                              DataType::bf16, DataType::fp8bf16, DataType::fp8fp16};
  if (std::ranges::find(kTypes, p.data_type) == kTypes.end())
    return fail(ErrorCode::unsupported, fmt::format("attention forward does not run on {}", name_of(p.data_type)),
                "fp32, tf32, fp16, bf16, fp8bf16 or fp8fp16");
  if (p.block_scale && input_type(p.data_type) != DataType::fp8)
    return fail(ErrorCode::invalid_argument, fmt::format("block scales with {}", name_of(p.data_type)),
                "they belong to fp8bf16 and fp8fp16");
  TS_TRY(check_dimension("batch", p.batch, 0));
  TS_TRY(check_dimension("heads_q", p.heads_q, 1));
  TS_TRY(check_dimension("heads_kv", p.heads_kv, 1));
  TS_TRY(check_dimension("seqlen_q", p.seqlen_q, 0));
  TS_TRY(check_dimension("seqlen_k", p.seqlen_k, 0));
  TS_TRY(check_dimension("head_dim_qk", p.head_dim_qk, 1, kMaxHeadDim));
  TS_TRY(check_dimension("head_dim_v", p.head_dim_v, 1, kMaxHeadDim));
  TS_TRY(check_dimension("page_size", p.page_size, 0));
  TS_TRY(check_dimension("splits", p.splits, 0));
  if (p.page_size > 0 && p.block_scale)
    return fail(ErrorCode::unsupported, fmt::format("block scales with pages of {} keys", p.page_size),
                "scales by tensor or head, or keys that are not paged");
  if (p.cache != KvElements::as_queries && input_type(p.data_type) == DataType::fp8)
    return fail(ErrorCode::invalid_argument,
                fmt::format("a cache of {} beside queries of {}", name_of(p.cache), name_of(p.data_type)),
                "no cache elements of their own, or queries of fp32, tf32, fp16 or bf16");
  if (p.latent && p.head_dim_v > p.head_dim_qk)
    return fail(ErrorCode::invalid_argument,
                fmt::format("values of {} elements in latent keys of {}", p.head_dim_v, p.head_dim_qk),
                "at most the keys' head dim: values are the first elements of the keys");
  if (p.vectorized_pages) {
    const std::int64_t unit = page_vector(p);
    if (p.latent || p.page_size == 0 || p.page_size % unit != 0 || p.head_dim_qk % unit != 0)
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("vectorized pages of {} {}keys, of {} elements", p.page_size, p.latent ? "latent " : "",
                      p.head_dim_qk),
          fmt::format("page_size and head_dim_qk multiples of {}, the elements of 16 bytes, and no latent keys", unit));
  }
  if (p.page_scale && (p.cache == KvElements::as_queries || p.page_size == 0))
    return fail(ErrorCode::invalid_argument,
                fmt::format("page scales of a cache of {} in pages of {} keys", name_of(p.cache), p.page_size),
                "a cache of fp8 or int8, and a page_size");
  if (p.append && (p.page_size == 0 || p.latent || input_type(p.data_type) == DataType::fp8))
    return fail(ErrorCode::invalid_argument,
                fmt::format("new keys for {}pages of {} keys, beside queries of {}", p.latent ? "latent " : "",
                            p.page_size, name_of(p.data_type)),
                "a page_size (a dense cache has pages of a sequence), values of their own, and queries of fp32, tf32, "
                "fp16 or bf16");
  if (p.heads_q % p.heads_kv != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("heads_q {} is not a multiple of heads_kv {}", p.heads_q, p.heads_kv),
                "every key head serves the same number of query heads");
  const std::int64_t longest = std::max(p.seqlen_q, p.seqlen_k);
  const std::int64_t widest = std::max(p.head_dim_qk, p.head_dim_v);
  if (!product_fits({p.batch, p.heads_q, longest, widest, 4}))
    return fail(ErrorCode::invalid_argument,
                fmt::format("a tensor of batch {} x heads {} x length {} x head dim {} overflows", p.batch, p.heads_q,
                            longest, widest),
                "tensors below 2^62 bytes");
  if (p.bias == BiasKind::elementwise && !product_fits({p.batch, p.heads_q, p.seqlen_q, p.seqlen_k, 4}))
    return fail(ErrorCode::invalid_argument,
                fmt::format("a bias of batch {} x heads {} x {} queries x {} keys overflows", p.batch, p.heads_q,
                            p.seqlen_q, p.seqlen_k),
                "tensors below 2^62 bytes");
  if (p.mask == MaskKind::generic || p.mask == MaskKind::causal)
    return fail(ErrorCode::invalid_argument,
                fmt::format("a problem's mask is {}, which only kernels have", name_of(p.mask)),
                "none with a window, top_left or bottom_right");
  if (p.window_left < -1 || p.window_right < -1)
    return fail(ErrorCode::invalid_argument, fmt::format("the window is ({}, {})", p.window_left, p.window_right),
                "bounds of 0 or more, or -1 for none");
  if (p.mask != MaskKind::none && p.window_right > 0)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("overlapping masks: a causal mask ends at the diagonal, the window ({}, {}) goes beyond it",
                    p.window_left, p.window_right),
        fmt::format("a right bound of -1 or 0 with a causal mask, or mask none; keys up to {0} beyond the "
                    "diagonal are those of diagonal {0}{1}",
                    p.window_right,
                    p.window_left < 0 ? "" : fmt::format(" with a left bound of {}", p.window_left + p.window_right)));
  if (p.diagonal < -kMaxDimension || p.diagonal > kMaxDimension)
    return fail(ErrorCode::invalid_argument, fmt::format("diagonal is {}", p.diagonal),
                fmt::format("{} to {}", -kMaxDimension, kMaxDimension));
  if (p.diagonal != 0 && p.mask == MaskKind::none && p.window_left < 0 && p.window_right < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("diagonal is {} without a mask or window", p.diagonal),
                "mask top_left or bottom_right, or a window; 0 without");
  return {};
}

AttentionArguments dense_arguments(const AttentionProblem& p, AttentionLayout layout, std::int64_t total_q,
                                   std::int64_t total_k) {
  const bool group = p.mode == SequenceMode::group;
  const std::int64_t rows_q = group ? total_q : p.seqlen_q;
  const bool paged = p.page_size > 0;
  const std::int64_t rows_k = paged ? p.page_size : group ? total_k : p.seqlen_k;
  const auto dense = [&](std::int64_t heads, std::int64_t rows, std::int64_t dim, bool packed) {
    AttentionStrides strides =
        layout == AttentionLayout::bhsd ? AttentionStrides{0, rows * dim, dim} : AttentionStrides{0, dim, heads * dim};
    if (!packed) strides.batch = heads * rows * dim;
    return strides;
  };
  AttentionArguments out;
  out.q_strides = dense(p.heads_q, rows_q, p.head_dim_qk, group);
  out.k_strides = dense(p.heads_kv, rows_k, p.head_dim_qk, group && !paged);
  out.v_strides = dense(p.heads_kv, rows_k, p.head_dim_v, group && !paged);
  if (p.vectorized_pages) {
    out.k_strides.head = rows_k * p.head_dim_qk;
    out.v_strides.head = rows_k * p.head_dim_v;
    out.k_strides.row = out.v_strides.row = 0;
  }
  out.o_strides = dense(p.heads_q, rows_q, p.head_dim_v, group);
  out.lse_strides = {group ? 0 : p.heads_q * rows_q, rows_q, 1};
  if (p.bias == BiasKind::elementwise)
    out.bias_strides = {p.heads_q * p.seqlen_q * p.seqlen_k, p.seqlen_q * p.seqlen_k, p.seqlen_k, 1};
  out.scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim_qk));
  return out;
}

AttentionSignature signature_of(const AttentionProblem& p) {
  AttentionSignature s;
  s.data_type = p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type;
  s.mode = p.mode;
  s.head_dim_qk = static_cast<std::uint16_t>(p.head_dim_qk);
  s.head_dim_v = static_cast<std::uint16_t>(p.head_dim_v);
  s.mask = p.mask != MaskKind::none || p.window_left >= 0 || p.window_right >= 0 ? MaskKind::generic : MaskKind::none;
  s.bias = p.bias;
  s.lse = p.lse;
  s.dropout = p.dropout;
  s.soft_cap = p.soft_cap;
  s.sink = p.sink;
  s.paged_kv = p.page_size > 0;
  s.cache = p.cache;
  return s;
}

MaskWindow window_of(const AttentionProblem& p) {
  // FlashAttention aligns a window without a causal mask to the bottom right.
  const bool windowed = p.window_left >= 0 || p.window_right >= 0;
  // A bound beyond every length bounds nothing, and kernels may add lengths to it.
  return {.left = std::min(p.window_left, kMaxDimension),
          .right = p.mask == MaskKind::none ? std::min(p.window_right, kMaxDimension) : 0,
          .bottom_right = p.mask == MaskKind::bottom_right || (p.mask == MaskKind::none && windowed),
          .diagonal = p.diagonal};
}

double visible_pairs(const AttentionProblem& p) {
  return static_cast<double>(p.batch) * static_cast<double>(p.heads_q) *
         pairs_in_window(p.seqlen_q, p.seqlen_k, window_of(p));
}

double flops_of(const AttentionProblem& p) {
  return 2.0 * static_cast<double>(p.head_dim_qk + p.head_dim_v) * visible_pairs(p);
}

std::int64_t input_bytes(DataType type) {
  return bits_of(type) / 8;
}

std::int64_t cache_bytes(const AttentionProblem& p) {
  return p.cache == KvElements::as_queries ? input_bytes(p.data_type) : 1;
}

double bytes_of(const AttentionProblem& p) {
  const double dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const double queries = static_cast<double>(p.heads_q * p.seqlen_q * input_bytes(p.data_type));
  const double keys = static_cast<double>(p.heads_kv * p.seqlen_k * cache_bytes(p));
  const double dims_k = p.latent ? static_cast<double>(p.head_dim_qk) : dims;
  return static_cast<double>(p.batch) * (queries * dims + keys * dims_k);
}

Status validate(const AttentionProblem& p, const AttentionArguments& a, DeviceKind device) {
  const bool group = p.mode == SequenceMode::group;
  const bool paged = p.page_size > 0;
  TS_TRY(check_pointer("cu_seqlens_q", a.cu_seqlens_q, group, "group mode reads batch + 1 offsets"));
  TS_TRY(check_pointer("cu_seqlens_k", a.cu_seqlens_k, group && !paged, "group mode reads batch + 1 offsets"));

  std::int64_t rows_q = p.seqlen_q, rows_k = p.seqlen_k;
  if (group && is_gpu(device)) {
    TS_TRY(check_dimension("total_q", a.total_q, 0));
    rows_q = a.total_q;
    if (!paged) TS_TRY(check_dimension("total_k", a.total_k, 0));
    if (!paged) rows_k = a.total_k;
  } else if (group) {
    const auto check_offsets = [&](const char* name, const std::int32_t* offsets, std::int64_t longest,
                                   std::int64_t& total) -> Status {
      if (offsets[0] != 0) return fail(ErrorCode::invalid_argument, fmt::format("{}[0] is {}", name, offsets[0]), "0");
      for (std::int64_t b = 0; b < p.batch; ++b) {
        const std::int64_t length = std::int64_t{offsets[b + 1]} - offsets[b];
        if (length < 0 || length > longest)
          return fail(ErrorCode::invalid_argument, fmt::format("{}[{}] - {}[{}] is {}", name, b + 1, name, b, length),
                      fmt::format("a length of 0 to {}, the problem's maximum", longest));
      }
      total = offsets[p.batch];
      return {};
    };
    TS_TRY(check_offsets("cu_seqlens_q", a.cu_seqlens_q, p.seqlen_q, rows_q));
    if (!paged) TS_TRY(check_offsets("cu_seqlens_k", a.cu_seqlens_k, p.seqlen_k, rows_k));
  }
  if (paged && a.pages.num_pages == 0) rows_k = 0;
  const bool some_queries = p.batch > 0 && p.seqlen_q > 0 && rows_q > 0;
  const bool some_keys = p.batch > 0 && p.seqlen_k > 0 && rows_k > 0;
  TS_TRY(check_pointer("q", a.q, some_queries, "a tensor of queries"));
  TS_TRY(check_pointer("k", a.k, some_keys, "a tensor of keys"));
  TS_TRY(check_pointer("v", a.v, some_keys && !p.latent, "a tensor of values"));
  TS_TRY(check_pointer("o", a.o, some_queries, "a tensor for the output"));
  TS_TRY(check_pointer("lse", a.lse, some_queries && p.lse, "the problem asks for the log-sum-exp"));
  TS_TRY(check_pointer("bias", a.bias, some_queries && some_keys && p.bias == BiasKind::elementwise,
                       "the problem has an elementwise bias"));
  TS_TRY(check_pointer("alibi", a.alibi, p.batch > 0 && p.bias == BiasKind::alibi, "the problem has ALiBi slopes"));
  TS_TRY(check_pointer("sink", a.sink, p.sink, "the problem has sink logits"));
  const std::int64_t batches = group ? 1 : p.batch;
  std::int64_t batches_k = batches;
  if (paged) {
    TS_TRY(check_pages(p, a, device));
    batches_k = a.pages.num_pages;
    rows_k = p.page_size;
  }
  const std::int64_t bytes = 4;  // of the widest type: a limit on addresses
  const auto check = [&](const char* name, std::int64_t members, const AttentionStrides& s, std::int64_t heads,
                         std::int64_t rows, std::int64_t dim) {
    return check_strides(name, {{members, s.batch}, {heads, s.head}, {rows, s.row}, {dim, 1}}, bytes);
  };
  TS_TRY(check("q", batches, a.q_strides, p.heads_q, rows_q, p.head_dim_qk));
  if (p.vectorized_pages) {  // a head's share of a page is contiguous
    TS_TRY(check("k", batches_k, a.k_strides, p.heads_kv, 1, p.page_size * p.head_dim_qk));
    TS_TRY(check("v", batches_k, a.v_strides, p.heads_kv, 1, p.page_size * p.head_dim_v));
  } else {
    TS_TRY(check("k", batches_k, a.k_strides, p.heads_kv, rows_k, p.head_dim_qk));
    if (!p.latent) TS_TRY(check("v", batches_k, a.v_strides, p.heads_kv, rows_k, p.head_dim_v));
  }
  TS_TRY(check("o", batches, a.o_strides, p.heads_q, rows_q, p.head_dim_v));
  if (p.lse)
    TS_TRY(check_strides(
        "lse", {{batches, a.lse_strides.batch}, {p.heads_q, a.lse_strides.head}, {rows_q, a.lse_strides.row}}, 4));
  if (p.bias == BiasKind::elementwise)
    TS_TRY(check_strides("bias",
                         {{p.batch, a.bias_strides.batch},
                          {p.heads_q, a.bias_strides.head},
                          {p.seqlen_q, a.bias_strides.row},
                          {p.seqlen_k, a.bias_strides.column}},
                         4));
  if (p.bias == BiasKind::alibi) TS_TRY(check_strides("alibi", {{p.batch, a.alibi_batch_stride}, {p.heads_q, 1}}, 4));
  TS_TRY(check_apart(
      "o",
      {{{batches, a.o_strides.batch}, {p.heads_q, a.o_strides.head}, {rows_q, a.o_strides.row}, {p.head_dim_v, 1}}}));
  if (p.lse)
    TS_TRY(check_apart(
        "lse",
        {{{batches, a.lse_strides.batch}, {p.heads_q, a.lse_strides.head}, {rows_q, a.lse_strides.row}, {1, 1}}}));
  if (!std::isfinite(a.scale))
    return fail(ErrorCode::invalid_argument, fmt::format("scale is {}", a.scale), "a finite number");
  if (p.soft_cap && !(a.soft_cap > 0 && std::isfinite(a.soft_cap)))
    return fail(ErrorCode::invalid_argument, fmt::format("soft_cap is {}", a.soft_cap), "a positive number");
  if (p.dropout && !(a.dropout_probability >= 0 && a.dropout_probability < 1))
    return fail(ErrorCode::invalid_argument, fmt::format("dropout_probability is {}", a.dropout_probability),
                "0 or more, below 1");
  return p.append ? check_append(p, a, device) : Status{};
}

std::uint32_t drop_threshold(const AttentionArguments& a) {
  return static_cast<std::uint32_t>(std::min(65535.0f, std::round(a.dropout_probability * 65536.0f)));
}

TsAttentionArgs cpu_arguments(const AttentionProblem& p, const AttentionArguments& a, std::int64_t splits,
                              void* workspace) {
  auto out = shared_kernel_args<TsAttentionArgs>(p, a);
  out.workspace = workspace;
  out.splits = splits;
  out.diagonal = p.diagonal;
  out.head_dim_qk = p.head_dim_qk;
  out.head_dim_v = p.head_dim_v;
  if (!p.soft_cap) out.soft_cap = 0;
  if (p.page_size > 0) out.paged = paged_keys(p, a.pages);
  if (p.vectorized_pages) out.k_strides.row = out.v_strides.row = 0;
  static_assert(static_cast<int>(KvElements::fp8) == TS_CACHE_FP8 &&
                static_cast<int>(KvElements::int8) == TS_CACHE_INT8);
  out.cache = static_cast<int>(p.cache);
  out.page_scale = p.page_scale;
  if (input_type(p.data_type) == DataType::fp8 || p.cache != KvElements::as_queries) {
    const auto scale = [&](const AttentionScale& s) {
      return TsScale{s.data, s.batch, s.head, p.block_scale || p.page_scale ? s.block : 0};
    };
    if (p.cache == KvElements::as_queries) out.q_scale = scale(a.q_scale);
    out.k_scale = scale(a.k_scale);
    out.v_scale = scale(a.v_scale);
  }
  if (p.latent) {
    out.v = out.k;
    out.v_strides = out.k_strides;
    out.v_scale = out.k_scale;
  }
  return out;
}

}  // namespace tilesmith
