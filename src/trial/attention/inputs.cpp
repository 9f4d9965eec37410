// The inputs of an attention case: those that the caller gave, checked, and random ones for the rest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "base/function_ref.hpp"
#include "base/random.hpp"
#include "base/raw_array.hpp"
#include "problem/attention/pages.hpp"
#include "problem/attention/problem.hpp"
#include "problem/derive.hpp"
#include "trial/attention/case.hpp"
#include "trial/attention/data.hpp"
#include "trial/tf32.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of the random tensors of one seed.
enum Stream : std::uint64_t { kQ = 1, kK, kV, kBias, kSink, kLengthsQ, kLengthsK, kPages, kAngles, kHiddenKeys };

RandomStream stream_of(const AttentionNumbers& numbers, Stream which) {
  return {numbers.seed, which};
}

/// Whether the caller gave a tensor. A scalar has no dimensions, but an element.
bool is_given(const HostArray& array) {
  return !array.shape.empty() || !array.data.empty();
}

Status check_floating(const char* name, const HostArray& array) {
  if (is_floating(array.type)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} has elements of type {}", name, to_string(array.type)),
              "a floating-point type");
}

Status check_shape(const char* name, const HostArray& array, const std::vector<std::int64_t>& expected) {
  if (array.shape == expected) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(array.shape)),
              fmt::format("shape {} for this problem", shape_text(expected)));
}

/// Multiplies every row by what `factor(head, row)` says.
void scale_rows(std::span<float> values, AttentionLayout layout, std::int64_t heads, std::int64_t rows,
                std::int64_t dim, FunctionRef<float(std::int64_t, std::int64_t)> factor) {
  const bool by_head = layout == AttentionLayout::bhsd;
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(dim)) {
    const auto line = static_cast<std::int64_t>(at) / dim;
    const std::int64_t head = by_head ? line / rows % heads : line % heads;
    const std::int64_t row = by_head ? line % rows : line / heads % rows;
    const float by = factor(head, row);
    if (by == 1) continue;
    for (float& value : values.subspan(at, static_cast<std::size_t>(dim))) value *= by;
  }
}

/// A given tensor in the problem's element type, or a random one, which `shape_values` may change.
Status fill_tensor(
    const char* name, HostArray& array, const std::vector<std::int64_t>& shape, ElementType type, RandomStream stream,
    FunctionRef<void(std::span<float>)> shape_values = [](std::span<float>) {}) {
  if (is_given(array)) {
    TS_TRY(check_shape(name, array, shape));
    TS_TRY(check_floating(name, array));
    if (array.type != type) array = make_array(type, shape, array.to_floats());
    return {};
  }
  TS_ASSIGN(const std::uint64_t bytes, byte_size(type, shape));
  RawArray<float> values(bytes / size_of(type));
  fill_normal(values.span(), stream);
  shape_values(values.span());
  array = make_array(type, shape, values.span());
  return {};
}

/// Hides keys from one row of a bias in four, as padding masks do: those in front, those at the end, or all get
/// `padding`.
void hide_keys(std::span<float> bias, std::int64_t keys, float padding, RandomStream random) {
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::size_t>(random.below(draw++, static_cast<std::uint64_t>(bound)));
  };
  for (; !bias.empty(); bias = bias.subspan(static_cast<std::size_t>(keys))) {
    const std::size_t kind = below(16), place = below(keys + 1);
    const std::span<float> row = bias.first(static_cast<std::size_t>(keys));
    const std::span<float> hidden = kind < 2   ? row.first(place)
                                    : kind < 3 ? row.subspan(place)
                                    : kind < 4 ? row
                                               : row.first(0);
    std::ranges::fill(hidden, padding);
  }
}

bool all_fp8(const AttentionInputs& in) {
  return in.q.type == ElementType::fp8e4m3 && in.k.type == ElementType::fp8e4m3 && in.v.type == ElementType::fp8e4m3;
}

/// Random lengths in 0..longest with the longest among them, as offsets.
std::vector<std::int32_t> random_offsets(std::int64_t batch, std::int64_t longest, RandomStream stream) {
  std::vector<std::int32_t> offsets{0};
  for (std::int64_t b = 0; b < batch; ++b) {
    const bool last = b + 1 == batch;
    const auto length = last ? longest
                             : static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(b),
                                                                      static_cast<std::uint64_t>(longest) + 1));
    offsets.push_back(static_cast<std::int32_t>(offsets.back() + length));
  }
  return offsets;
}

Status check_offsets(const char* name, const std::vector<std::int32_t>& offsets, std::int64_t batch,
                     std::int64_t longest) {
  if (static_cast<std::int64_t>(offsets.size()) != batch + 1)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has {} offsets", name, offsets.size()),
                fmt::format("batch + 1 = {}", batch + 1));
  if (offsets.front() != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("{}[0] is {}", name, offsets.front()), "0");
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (const std::int64_t length = std::int64_t{offsets[i]} - offsets[i - 1]; length < 0 || length > longest)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: sequence {} has length {}", name, i - 1, length),
                  fmt::format("0 to {}", longest));
  return {};
}

/// A bias broadcastable to (batch, heads_q, seqlen_q, seqlen_k), as NumPy broadcasts.
Result<BiasStrides> bias_strides_of(const HostArray& bias, const AttentionProblem& p) {
  const std::int64_t target[4] = {p.batch, p.heads_q, p.seqlen_q, p.seqlen_k};
  std::int64_t strides[4] = {0, 0, 0, 0};
  std::int64_t stride = 1;
  const std::size_t rank = bias.shape.size();
  bool fits = rank <= 4;
  for (std::size_t i = 0; fits && i < rank; ++i) {
    const std::size_t axis = 3 - i;
    const std::int64_t size = bias.shape[rank - 1 - i];
    if (size == target[axis])
      strides[axis] = size == 1 ? 0 : stride;
    else if (size != 1)
      fits = false;
    stride *= size;
  }
  if (!fits)
    return fail(ErrorCode::invalid_argument, fmt::format("bias has shape {}", shape_text(bias.shape)),
                fmt::format("a shape that broadcasts to {}", shape_text(target)));
  return BiasStrides{strides[0], strides[1], strides[2], strides[3]};
}

/// `members` is the batch, or the pages; absent where sequences are packed.
std::vector<std::int64_t> tensor_shape(std::optional<std::int64_t> members, AttentionLayout layout, std::int64_t heads,
                                       std::int64_t rows, std::int64_t dim) {
  std::vector<std::int64_t> shape;
  if (members) shape.push_back(*members);
  if (layout == AttentionLayout::bhsd)
    shape.insert(shape.end(), {heads, rows, dim});
  else
    shape.insert(shape.end(), {rows, heads, dim});
  return shape;
}

/// A given tensor as the kernels read it.
Status as_floats(const char* name, HostArray& array) {
  TS_TRY(check_floating(name, array));
  if (array.type != ElementType::fp32) array = make_array(ElementType::fp32, array.shape, array.to_floats());
  return {};
}

/// The slopes of Press et al. 2022 (arXiv:2108.12409): 2^(-8 h / heads), h = 1 .. heads.
HostArray usual_slopes(std::int64_t heads) {
  std::vector<float> slopes;
  for (std::int64_t h = 1; h <= heads; ++h)
    slopes.push_back(std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(heads)));
  return make_array(ElementType::fp32, {heads}, slopes);
}

}  // namespace

Result<AttentionCase> AttentionCase::create(const RandomCall<AttentionFwd>& call, AttentionInputs given) {
  TS_TRY(validate(call.problem));
  AttentionCase out(call, std::move(given));
  TS_TRY(out.take_lengths());
  if (!out.numbers_.scale) out.numbers_.scale = 1.0f / std::sqrt(static_cast<float>(out.problem_.head_dim_qk));
  TS_TRY(out.check_numbers());
  TS_TRY(out.take_rows());
  TS_TRY(out.quantise_rows());
  TS_TRY(out.take_bias_and_sink());
  out.lay_out_pages();

  // Sizes and numbers are checked before there is memory for outputs: any address stands for it.
  float anywhere = 0;
  AttentionArguments arguments = out.arguments();
  out.problem_ = derived(out.problem_, arguments);
  arguments.o = &anywhere;
  arguments.lse = &anywhere;
  TS_TRY(validate(out.problem_, arguments));
  return out;
}

Status AttentionCase::take_lengths() {
  const AttentionProblem& p = problem_;
  AttentionInputs& in = inputs_;
  total_q_ = p.seqlen_q;
  total_k_ = p.seqlen_k;
  if (p.mode == SequenceMode::group) {
    if (in.cu_seqlens_q.empty()) in.cu_seqlens_q = random_offsets(p.batch, p.seqlen_q, stream_of(numbers_, kLengthsQ));
    TS_TRY(check_offsets("cu_seqlens_q", in.cu_seqlens_q, p.batch, p.seqlen_q));
    total_q_ = in.cu_seqlens_q.back();
    if (!paged()) {
      if (in.cu_seqlens_k.empty())
        in.cu_seqlens_k = random_offsets(p.batch, p.seqlen_k, stream_of(numbers_, kLengthsK));
      TS_TRY(check_offsets("cu_seqlens_k", in.cu_seqlens_k, p.batch, p.seqlen_k));
      total_k_ = in.cu_seqlens_k.back();
    }
  }
  if (!paged()) return {};
  if (is_given(in.k) || is_given(in.v) || !in.cu_seqlens_k.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("keys are given, and lie in pages of {}", p.page_size),
                "random k and v, whose pages are random too");
  if (p.append && (is_given(in.q) || p.seqlen_k < p.seqlen_q))
    return fail(ErrorCode::invalid_argument,
                fmt::format("the call appends {} keys, {}", p.seqlen_q,
                            is_given(in.q) ? "and q is given" : fmt::format("and has {} with them", p.seqlen_k)),
                "random q, k and v, and as many keys as queries or more");
  pages_ = random_pages(p, in.cu_seqlens_q, stream_of(numbers_, kPages));
  total_k_ = std::accumulate(pages_.lengths.begin(), pages_.lengths.end(), std::int64_t{0});
  return {};
}

Status AttentionCase::take_rows() {
  const AttentionProblem& p = problem_;
  AttentionInputs& in = inputs_;
  const bool fp8 = input_type(p.data_type) == DataType::fp8;
  const ElementType type = fp8 && !all_fp8(in) ? ElementType::fp32 : input_element_type_of(p);
  const bool packed = p.mode == SequenceMode::group;
  const std::optional<std::int64_t> members_q = packed ? std::nullopt : std::optional(p.batch);
  const std::optional<std::int64_t> members_k = paged() ? std::optional(pages_.num_pages()) : members_q;
  TS_TRY(fill_tensor("q", in.q, tensor_shape(members_q, numbers_.layout, p.heads_q, total_q_, p.head_dim_qk), type,
                     stream_of(numbers_, kQ), [&](std::span<float> q) {
                       scale_rows(q, numbers_.layout, p.heads_q, total_q_, p.head_dim_qk,
                                  [](std::int64_t head, std::int64_t row) { return loudness(head, row); });
                     }));
  const auto shape_keys = [&](std::int64_t dim) {
    return [&, dim](std::span<float> values) {
      if (paged()) poison_unused_rows(pages_, numbers_.layout, p.heads_kv, p.page_size, dim, values);
      if (p.block_scale)
        scale_rows(values, numbers_.layout, p.heads_kv, total_k_, dim,
                   [](std::int64_t, std::int64_t row) { return size_in_block(row); });
    };
  };
  const ElementType type_k = p.cache == KvElements::as_queries ? type : ElementType::fp32;
  TS_TRY(fill_tensor("k", in.k, tensor_shape(members_k, numbers_.layout, p.heads_kv, rows_k(), p.head_dim_qk), type_k,
                     stream_of(numbers_, kK), shape_keys(p.head_dim_qk)));
  if (!p.latent)
    TS_TRY(fill_tensor("v", in.v, tensor_shape(members_k, numbers_.layout, p.heads_kv, rows_k(), p.head_dim_v), type_k,
                       stream_of(numbers_, kV), shape_keys(p.head_dim_v)));

  if (p.data_type == DataType::tf32)
    for (HostArray* array : {&in.q, &in.k, &in.v})
      if (is_given(*array) && array->type == ElementType::fp32) round_to_tf32(*array);
  if (p.append) {
    TS_ASSIGN(append_, RandomAppend::take(p, numbers_, pages_, in.cu_seqlens_q, {.q = in.q, .k = in.k, .v = in.v},
                                          stream_of(numbers_, kAngles)));
  }
  return {};
}

Status AttentionCase::quantise_rows() {
  const AttentionProblem& p = problem_;
  AttentionInputs& in = inputs_;
  const bool fp8 = input_type(p.data_type) == DataType::fp8;
  if (!fp8 && p.cache == KvElements::as_queries) return {};
  const ElementType cached = cache_element_type_of(p);
  const std::int64_t sequences_k = paged() ? pages_.num_pages() : p.batch;
  if (fp8) TS_TRY(quantise(in.q, cached, p.batch, p.heads_q, total_q_, in.cu_seqlens_q, q_scale_));
  TS_TRY(quantise(in.k, cached, sequences_k, p.heads_kv, rows_k(), in.cu_seqlens_k, k_scale_));
  if (!p.latent) TS_TRY(quantise(in.v, cached, sequences_k, p.heads_kv, rows_k(), in.cu_seqlens_k, v_scale_));
  return {};
}

Status AttentionCase::quantise(HostArray& array, ElementType to, std::int64_t sequences, std::int64_t heads,
                               std::int64_t rows, const std::vector<std::int32_t>& offsets, Scales& scales) const {
  const float largest = to == ElementType::int8 ? 127 : 448;
  const AttentionProblem& p = problem_;
  if (array.type == to) return {};
  std::vector<float> values = array.to_floats();
  const std::int64_t longest = offsets.empty() ? rows : std::max(p.seqlen_q, p.seqlen_k);
  const std::int64_t blocks = p.block_scale ? std::max<std::int64_t>(1, (longest + kScaleBlock - 1) / kScaleBlock) : 1;
  const std::int64_t run = p.page_scale ? 1 : kScaleBlock;  // rows that share a scale
  if (p.block_scale) scales = {.values = {}, .batch = heads * blocks, .head = blocks, .block = 1};
  if (p.page_scale)
    scales = {.values = {}, .batch = heads * rows, .head = rows, .block = 1};
  else if (p.cache != KvElements::as_queries)
    scales = {.values = {}, .batch = 0, .head = 1, .block = 0};
  const std::int64_t count = p.block_scale  ? sequences * heads * blocks
                             : p.page_scale ? sequences * heads * rows
                                            : (heads - 1) * scales.head + 1;
  scales.values.assign(static_cast<std::size_t>(count), 0.0F);
  const std::int64_t dim = values.empty()
                               ? 0
                               : static_cast<std::int64_t>(values.size()) /
                                     std::max<std::int64_t>(1, heads * rows * (offsets.empty() ? sequences : 1));
  const bool bhsd = numbers_.layout == AttentionLayout::bhsd;
  /// Calls visit(scale, first value of the row) for every row.
  const auto for_each_row = [&](auto visit) {
    for (std::int64_t b = 0; b < sequences; ++b) {
      const std::int64_t begin = offsets.empty() ? 0 : offsets[static_cast<std::size_t>(b)];
      const std::int64_t length = offsets.empty() ? rows : offsets[static_cast<std::size_t>(b) + 1] - begin;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t row = 0; row < length; ++row) {
          const std::int64_t place = bhsd ? h * rows + begin + row : (begin + row) * heads + h;
          const std::int64_t at = ((offsets.empty() ? b * heads * rows : 0) + place) * dim;
          visit(scales.values[static_cast<std::size_t>(b * scales.batch + h * scales.head + row / run * scales.block)],
                values.data() + at);
        }
    }
  };
  for_each_row([&](float& scale, const float* row) {
    for (std::int64_t c = 0; c < dim; ++c) scale = std::max(scale, std::abs(row[c]) / largest);
  });
  // Rows of a page that are not in use are NaN, and so are their scales: they are not read either.
  const float without = p.page_scale ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
  for (float& scale : scales.values) scale = std::isnormal(scale) ? scale : without;
  for_each_row([&](const float& scale, float* row) {
    for (std::int64_t c = 0; c < dim; ++c) row[c] /= scale;
  });
  array = make_array(to, array.shape, values);
  return {};
}

Status AttentionCase::take_bias_and_sink() {
  const AttentionProblem& p = problem_;
  AttentionInputs& in = inputs_;
  if (p.bias == BiasKind::elementwise) {
    if (!is_given(in.bias))
      TS_TRY(fill_tensor("bias", in.bias, {p.heads_q, p.seqlen_q, p.seqlen_k}, ElementType::fp32,
                         stream_of(numbers_, kBias), [&](std::span<float> bias) {
                           hide_keys(bias, p.seqlen_k,
                                     numbers_.padding.value_or(-std::numeric_limits<float>::infinity()),
                                     stream_of(numbers_, kHiddenKeys));
                         }));
    TS_TRY(as_floats("bias", in.bias));
    TS_ASSIGN(bias_strides_, bias_strides_of(in.bias, p));
  }
  if (p.bias == BiasKind::alibi) {
    if (!is_given(in.alibi)) in.alibi = usual_slopes(p.heads_q);
    TS_TRY(as_floats("alibi", in.alibi));
    if (in.alibi.shape == std::vector<std::int64_t>{p.batch, p.heads_q})
      alibi_batch_stride_ = p.heads_q;
    else
      TS_TRY(check_shape("alibi", in.alibi, {p.heads_q}));
  }
  if (!p.sink) return {};
  return fill_tensor("sink", in.sink, {p.heads_q}, ElementType::fp32, stream_of(numbers_, kSink),
                     [&](std::span<float> sinks) {
                       for (float& sink : sinks) sink += sink_size(p.seqlen_k);
                     });
}

void AttentionCase::lay_out_pages() {
  const AttentionProblem& p = problem_;
  if (p.append) {
    append_.hide(inputs_.k, inputs_.v);
    if (numbers_.choose_scales) append_.hide_scales(k_scale_.values, v_scale_.values);
  }
  if (!p.vectorized_pages) return;
  const auto vectors = [&](const HostArray& rows, std::int64_t dim, bool along_dim) {
    return vectorized(rows.data, numbers_.layout, p.heads_kv, p.page_size, dim, page_vector(p), along_dim);
  };
  vectorized_k_ = vectors(inputs_.k, p.head_dim_qk, true);
  vectorized_v_ = vectors(inputs_.v, p.head_dim_v, false);
  if (p.append) {
    append_.k_cache.data = vectors(append_.k_cache, p.head_dim_qk, true);
    append_.v_cache.data = vectors(append_.v_cache, p.head_dim_v, false);
  }
}

}  // namespace tilesmith
