#include "trial/attention/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
#include "trial/attention/data.hpp"
#include "trial/tf32.hpp"
#include "verify/attention/naive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of the random tensors of one seed.
enum Stream : std::uint64_t { kQ = 1, kK, kV, kBias, kSink, kLengthsQ, kLengthsK, kPages, kAngles, kHiddenKeys };

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

/// Hides keys from one row of a bias in four, as padding masks do: those in front, those at the end, or all.
void hide_keys(std::span<float> bias, std::int64_t keys, RandomStream random) {
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
    std::ranges::fill(hidden, -std::numeric_limits<float>::infinity());
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

}  // namespace

namespace {

ElementType element_type(DataType type) {
  switch (type) {
    case DataType::fp16:
      return ElementType::fp16;
    case DataType::bf16:
      return ElementType::bf16;
    case DataType::fp8:
      return ElementType::fp8e4m3;
    default:
      return ElementType::fp32;
  }
}

}  // namespace

ElementType input_element_type_of(const AttentionProblem& problem) {
  return element_type(input_type(problem.data_type));
}
ElementType cache_element_type_of(const AttentionProblem& problem) {
  switch (problem.cache) {
    case KvElements::as_queries:
      return input_element_type_of(problem);
    case KvElements::fp8:
      return ElementType::fp8e4m3;
    case KvElements::int8:
      return ElementType::int8;
  }
  return input_element_type_of(problem);
}
ElementType output_element_type_of(const AttentionProblem& problem) {
  return element_type(output_type(problem.data_type));
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

Result<AttentionCase> AttentionCase::create(const RandomCall<AttentionFwd>& call, AttentionInputs given) {
  TS_TRY(validate(call.problem));
  AttentionCase out(call, std::move(given));
  const AttentionProblem& p = out.problem_;
  AttentionInputs& in = out.inputs_;
  const auto stream = [&](Stream which) { return RandomStream{out.numbers_.seed, which}; };

  out.total_q_ = p.seqlen_q;
  out.total_k_ = p.seqlen_k;
  if (p.mode == SequenceMode::group) {
    if (in.cu_seqlens_q.empty()) in.cu_seqlens_q = random_offsets(p.batch, p.seqlen_q, stream(kLengthsQ));
    TS_TRY(check_offsets("cu_seqlens_q", in.cu_seqlens_q, p.batch, p.seqlen_q));
    out.total_q_ = in.cu_seqlens_q.back();
    if (!out.paged()) {
      if (in.cu_seqlens_k.empty()) in.cu_seqlens_k = random_offsets(p.batch, p.seqlen_k, stream(kLengthsK));
      TS_TRY(check_offsets("cu_seqlens_k", in.cu_seqlens_k, p.batch, p.seqlen_k));
      out.total_k_ = in.cu_seqlens_k.back();
    }
  }
  if (out.paged()) {
    if (is_given(in.k) || is_given(in.v) || !in.cu_seqlens_k.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("keys are given, and lie in pages of {}", p.page_size),
                  "random k and v, whose pages are random too");
    if (p.append && (is_given(in.q) || p.seqlen_k < p.seqlen_q))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the call appends {} keys, {}", p.seqlen_q,
                              is_given(in.q) ? "and q is given" : fmt::format("and has {} with them", p.seqlen_k)),
                  "random q, k and v, and as many keys as queries or more");
    out.pages_ = random_pages(p, in.cu_seqlens_q, stream(kPages));
    out.total_k_ = std::accumulate(out.pages_.lengths.begin(), out.pages_.lengths.end(), std::int64_t{0});
  }

  if (!out.numbers_.scale) out.numbers_.scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim_qk));
  TS_TRY(out.check_numbers());

  const bool fp8 = input_type(p.data_type) == DataType::fp8;
  const ElementType type = fp8 && !all_fp8(in) ? ElementType::fp32 : input_element_type_of(p);
  const bool packed = p.mode == SequenceMode::group;
  const std::optional<std::int64_t> members_q = packed ? std::nullopt : std::optional(p.batch);
  const std::optional<std::int64_t> members_k = out.paged() ? std::optional(out.pages_.num_pages()) : members_q;
  const std::int64_t rows_k = out.paged() ? p.page_size : out.total_k_;
  TS_TRY(fill_tensor("q", in.q, tensor_shape(members_q, out.numbers_.layout, p.heads_q, out.total_q_, p.head_dim_qk),
                     type, stream(kQ), [&](std::span<float> q) {
                       scale_rows(q, out.numbers_.layout, p.heads_q, out.total_q_, p.head_dim_qk,
                                  [](std::int64_t head, std::int64_t row) { return loudness(head, row); });
                     }));
  const auto shape_keys = [&](std::int64_t dim) {
    return [&, dim](std::span<float> values) {
      if (out.paged()) poison_unused_rows(out.pages_, out.numbers_.layout, p.heads_kv, p.page_size, dim, values);
      if (p.block_scale)
        scale_rows(values, out.numbers_.layout, p.heads_kv, out.total_k_, dim,
                   [](std::int64_t, std::int64_t row) { return size_in_block(row); });
    };
  };
  const ElementType type_k = p.cache == KvElements::as_queries ? type : ElementType::fp32;
  TS_TRY(fill_tensor("k", in.k, tensor_shape(members_k, out.numbers_.layout, p.heads_kv, rows_k, p.head_dim_qk), type_k,
                     stream(kK), shape_keys(p.head_dim_qk)));
  if (!p.latent)
    TS_TRY(fill_tensor("v", in.v, tensor_shape(members_k, out.numbers_.layout, p.heads_kv, rows_k, p.head_dim_v),
                       type_k, stream(kV), shape_keys(p.head_dim_v)));

  if (p.data_type == DataType::tf32)
    for (HostArray* array : {&in.q, &in.k, &in.v})
      if (is_given(*array) && array->type == ElementType::fp32) round_to_tf32(*array);
  if (p.append) {
    TS_ASSIGN(out.append_, RandomAppend::take(p, out.numbers_, out.pages_, in.cu_seqlens_q,
                                              {.q = in.q, .k = in.k, .v = in.v}, stream(kAngles)));
  }
  if (fp8 || p.cache != KvElements::as_queries) {
    const ElementType cached = cache_element_type_of(p);
    const std::int64_t sequences_k = out.paged() ? out.pages_.num_pages() : p.batch;
    if (fp8) TS_TRY(out.quantise(in.q, cached, p.batch, p.heads_q, out.total_q_, in.cu_seqlens_q, out.q_scale_));
    TS_TRY(out.quantise(in.k, cached, sequences_k, p.heads_kv, rows_k, in.cu_seqlens_k, out.k_scale_));
    if (!p.latent) TS_TRY(out.quantise(in.v, cached, sequences_k, p.heads_kv, rows_k, in.cu_seqlens_k, out.v_scale_));
  }

  const auto as_floats = [](const char* name, HostArray& array) -> Status {
    TS_TRY(check_floating(name, array));
    if (array.type != ElementType::fp32) array = make_array(ElementType::fp32, array.shape, array.to_floats());
    return {};
  };
  if (p.bias == BiasKind::elementwise) {
    if (!is_given(in.bias))
      TS_TRY(fill_tensor("bias", in.bias, {p.heads_q, p.seqlen_q, p.seqlen_k}, ElementType::fp32, stream(kBias),
                         [&](std::span<float> bias) { hide_keys(bias, p.seqlen_k, stream(kHiddenKeys)); }));
    TS_TRY(as_floats("bias", in.bias));
    TS_ASSIGN(out.bias_strides_, bias_strides_of(in.bias, p));
  }
  if (p.bias == BiasKind::alibi) {
    if (!is_given(in.alibi)) {
      // The slopes of Press et al. 2022 (arXiv:2108.12409): 2^(-8 h / heads), h = 1 .. heads.
      std::vector<float> slopes;
      for (std::int64_t h = 1; h <= p.heads_q; ++h)
        slopes.push_back(std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(p.heads_q)));
      in.alibi = make_array(ElementType::fp32, {p.heads_q}, slopes);
    }
    TS_TRY(as_floats("alibi", in.alibi));
    if (in.alibi.shape == std::vector<std::int64_t>{p.batch, p.heads_q})
      out.alibi_batch_stride_ = p.heads_q;
    else
      TS_TRY(check_shape("alibi", in.alibi, {p.heads_q}));
  }
  if (p.sink) {
    TS_TRY(fill_tensor("sink", in.sink, {p.heads_q}, ElementType::fp32, stream(kSink), [&](std::span<float> sinks) {
      for (float& sink : sinks) sink += sink_size(p.seqlen_k);
    }));
  }

  if (p.append) {
    out.append_.hide(in.k, in.v);
    if (out.numbers_.choose_scales) out.append_.hide_scales(out.k_scale_.values, out.v_scale_.values);
  }
  if (p.vectorized_pages) {
    const auto vectors = [&](const HostArray& rows, std::int64_t dim, bool along_dim) {
      return vectorized(rows.data, out.numbers_.layout, p.heads_kv, p.page_size, dim, page_vector(p), along_dim);
    };
    out.vectorized_k_ = vectors(in.k, p.head_dim_qk, true);
    out.vectorized_v_ = vectors(in.v, p.head_dim_v, false);
    if (p.append) {
      out.append_.k_cache.data = vectors(out.append_.k_cache, p.head_dim_qk, true);
      out.append_.v_cache.data = vectors(out.append_.v_cache, p.head_dim_v, false);
    }
  }

  // Sizes and numbers are checked before there is memory for outputs: any address stands for it.
  float anywhere = 0;
  AttentionArguments arguments = out.arguments();
  out.problem_ = derived(p, arguments);
  arguments.o = &anywhere;
  arguments.lse = &anywhere;
  TS_TRY(validate(p, arguments));
  return out;
}

Status AttentionCase::check_numbers() const {
  if (!problem_.append && (numbers_.rotary_dim != 0 || numbers_.choose_scales))
    return fail(ErrorCode::invalid_argument, "a rotary table or scales to choose, and nothing is appended",
                "append, or neither");
  AttentionProblem without_tensors = problem_;
  without_tensors.mode = SequenceMode::batch;
  without_tensors.page_size = 0;
  without_tensors.append = false;
  without_tensors.batch = 0;
  without_tensors.bias = BiasKind::none;
  without_tensors.sink = false;
  return validate(without_tensors, arguments(CallMemory()));
}

std::vector<OutputSpec> AttentionCase::outputs() const {
  const bool batched = problem_.mode == SequenceMode::batch;
  const AttentionArguments dense = dense_arguments(problem_, numbers_.layout, total_q_, total_k_);
  const auto strides = [](const AttentionStrides& s) { return TensorStrides{s.batch, s.head, s.row, 1}; };
  const auto axes = [&](std::vector<Axis> inner) {
    if (batched) inner.insert(inner.begin(), Axis::batch);
    return inner;
  };
  const TensorExtents rows{.batch = batched ? problem_.batch : 1, .head = problem_.heads_q, .row = total_q_};
  TensorExtents elements = rows;
  elements.column = problem_.head_dim_v;
  std::vector<OutputSpec> out{{.name = "o",
                               .type = output_element_type_of(problem_),
                               .extents = elements,
                               .strides = strides(dense.o_strides),
                               .axes = numbers_.layout == AttentionLayout::bhsd
                                           ? axes({Axis::head, Axis::row, Axis::column})
                                           : axes({Axis::row, Axis::head, Axis::column})}};
  if (problem_.lse)
    out.push_back({.name = "lse",
                   .type = ElementType::fp32,
                   .extents = rows,
                   .strides = strides(dense.lse_strides),
                   .axes = axes({Axis::head, Axis::row})});
  return out;
}

AttentionArguments AttentionCase::arguments(const CallMemory& memory) const {
  AttentionArguments a = dense_arguments(problem_, numbers_.layout, total_q_, total_k_);
  a.q = memory.input("q");
  a.k = memory.input("k");
  a.v = memory.input("v");
  a.bias = memory.input<float>("bias");
  a.alibi = memory.input<float>("alibi");
  a.sink = memory.input<float>("sink");
  a.o = memory.output("o");
  a.lse = memory.output<float>("lse");
  const auto set_strides = [&](AttentionStrides& strides, const char* name) {
    if (const OutputSpec* spec = memory.output_spec(name))
      strides = {spec->strides.batch, spec->strides.head, spec->strides.row};
  };
  set_strides(a.o_strides, "o");
  set_strides(a.lse_strides, "lse");
  if (problem_.mode == SequenceMode::group) {
    a.cu_seqlens_q = memory.input<std::int32_t>("cu_seqlens_q");
    a.cu_seqlens_k = memory.input<std::int32_t>("cu_seqlens_k");
    a.total_q = total_q_;
    a.total_k = total_k_;
  }
  if (paged())
    a.pages = {.lengths = memory.input<std::int32_t>("seqlens_k"),
               .numbers = memory.input<std::int32_t>("page_numbers"),
               .stride = pages_.stride,
               .num_pages = pages_.num_pages()};
  a.bias_strides = bias_strides_;
  const auto scale = [&](const char* name, const Scales& s) {
    return AttentionScale{memory.input<float>(name), s.batch, s.head, s.block};
  };
  a.q_scale = scale("q_scale", q_scale_);
  a.k_scale = scale("k_scale", k_scale_);
  a.v_scale = scale("v_scale", v_scale_);
  a.alibi_batch_stride = alibi_batch_stride_;
  a.scale = *numbers_.scale;
  a.soft_cap = numbers_.soft_cap;
  a.dropout_probability = numbers_.dropout_probability;
  a.seed = numbers_.seed;
  if (problem_.append) a.append = append_.arguments(problem_, numbers_, memory, total_q_);
  return a;
}

AttentionTensors AttentionCase::tensors() const {
  TsAttentionArgs a = cpu_arguments(problem_, arguments(), 1, nullptr);
  if (problem_.append) a.q = inputs_.q.data.data();
  if (problem_.append || problem_.vectorized_pages) {  // the checks read rows, which are there
    AttentionProblem of_rows = problem_;
    of_rows.vectorized_pages = false;
    const AttentionArguments rows = dense_arguments(of_rows, numbers_.layout);
    a.k = inputs_.k.data.data();
    a.v = inputs_.v.data.data();
    a.k_strides = {rows.k_strides.batch, rows.k_strides.head, rows.k_strides.row, 1};
    a.v_strides = {rows.v_strides.batch, rows.v_strides.head, rows.v_strides.row, 1};
  }
  const ElementType type = input_element_type_of(problem_);
  const auto view = [&](const void* data, ElementType element, const TsStrides& s, const Scales& scale, bool by_page) {
    return TensorView{
        data,
        element,
        {s.batch, s.head, s.row, s.column},
        {scale.values.empty() ? nullptr : scale.values.data(), scale.batch, scale.head, scale.block, by_page}};
  };
  const ElementType cached = cache_element_type_of(problem_);
  AttentionTensors out;
  out.q = view(a.q, type, a.q_strides, q_scale_, false);
  out.k = view(a.k, cached, a.k_strides, k_scale_, problem_.page_scale);
  out.v = view(a.v, cached, a.v_strides, problem_.latent ? k_scale_ : v_scale_, problem_.page_scale);
  out.bias = a.bias;
  out.bias_strides = {a.bias_strides.batch, a.bias_strides.head, a.bias_strides.row, a.bias_strides.column};
  out.alibi = a.alibi;
  out.alibi_batch_stride = a.alibi_batch_stride;
  out.sink = a.sink;
  out.cu_seqlens_q = a.cu_seqlens_q;
  out.cu_seqlens_k = a.cu_seqlens_k;
  out.pages = {a.paged.page_size, a.paged.lengths, a.paged.numbers,
               a.paged.offsets,   a.paged.stride,  pages_.num_pages()};
  out.batch = a.batch;
  out.heads_q = a.heads_q;
  out.heads_kv = a.heads_kv;
  out.seqlen_q = a.seqlen_q;
  out.seqlen_k = a.seqlen_k;
  out.head_dim_qk = problem_.head_dim_qk;
  out.head_dim_v = problem_.head_dim_v;
  out.window_left = a.window_left;
  out.window_right = a.window_right;
  out.diagonal = problem_.diagonal;
  out.mask_bottom_right = a.mask_bottom_right != 0;
  out.scale = a.scale;
  out.soft_cap = problem_.soft_cap ? a.soft_cap : 0.0f;
  out.seed = a.seed;
  out.offset = a.offset;
  out.drop_threshold = problem_.dropout ? a.drop_threshold : 0;
  out.tf32 = problem_.data_type == DataType::tf32;
  return out;
}

std::vector<NamedInput> AttentionCase::inputs() const {
  std::vector<NamedInput> out;
  for (const auto& [name, array] :
       {std::pair{"q", &inputs_.q}, std::pair{"k", &inputs_.k}, std::pair{"v", &inputs_.v},
        std::pair{"bias", &inputs_.bias}, std::pair{"alibi", &inputs_.alibi}, std::pair{"sink", &inputs_.sink}})
    out.push_back({name, array->data.data(), array->data.size()});
  if (problem_.vectorized_pages)
    for (const auto& [name, vectors] : {std::pair{"k", &vectorized_k_}, std::pair{"v", &vectorized_v_}})
      std::ranges::find(out, std::string_view(name), &NamedInput::name)->data = vectors->data();
  for (const auto& [name, offsets] :
       {std::pair{"cu_seqlens_q", &inputs_.cu_seqlens_q}, std::pair{"cu_seqlens_k", &inputs_.cu_seqlens_k},
        std::pair{"seqlens_k", &pages_.lengths}, std::pair{"page_numbers", &pages_.numbers}})
    out.push_back({name, offsets->data(), offsets->size() * sizeof(std::int32_t)});
  for (const auto& [name, scales] :
       {std::pair{"q_scale", &q_scale_}, std::pair{"k_scale", &k_scale_}, std::pair{"v_scale", &v_scale_}})
    out.push_back({name, scales->values.data(), scales->values.size() * sizeof(float)});
  if (problem_.append) append_.tell(out);
  return out;
}

Result<std::unique_ptr<const Reference>> AttentionCase::reference(unsigned threads) const {
  TS_ASSIGN(AttentionReference made, AttentionReference::make(tensors(), output_element_type_of(problem_), threads));
  return std::make_unique<const AttentionReference>(std::move(made));
}

Result<std::unique_ptr<const Reference>> AttentionCase::sampled_reference(unsigned threads) const {
  constexpr double kFewFlops = 4e9;  // the whole reference takes less than the first looks of a race
  if (flops() < kFewFlops) return reference(threads);
  TS_ASSIGN(AttentionReference made,
            AttentionReference::make_sampled(tensors(), output_element_type_of(problem_), threads));
  return std::make_unique<const AttentionReference>(std::move(made));
}

Status AttentionCase::run_naive(unsigned threads) const {
  const auto naive = naive_attention(tensors(), output_element_type_of(problem_), threads);
  return naive ? Status() : std::unexpected(naive.error());
}

double AttentionCase::visible_pairs() const {
  const bool group = problem_.mode == SequenceMode::group;
  if (!group && !paged()) return tilesmith::visible_pairs(problem_);
  double pairs = 0;
  AttentionProblem one = problem_;
  one.batch = 1;
  for (std::size_t b = 0; b < static_cast<std::size_t>(problem_.batch); ++b) {
    if (group) one.seqlen_q = inputs_.cu_seqlens_q[b + 1] - inputs_.cu_seqlens_q[b];
    one.seqlen_k = paged() ? pages_.lengths[b] : inputs_.cu_seqlens_k[b + 1] - inputs_.cu_seqlens_k[b];
    pairs += tilesmith::visible_pairs(one);
  }
  return pairs;
}

double AttentionCase::bytes() const {
  const double sequences = problem_.mode == SequenceMode::batch ? static_cast<double>(problem_.batch) : 1.0;
  const double queries = sequences * static_cast<double>(problem_.heads_q * total_q_) *
                         static_cast<double>(size_of(input_element_type_of(problem_)));
  const double keys = (paged() ? 1 : sequences) * static_cast<double>(problem_.heads_kv * total_k_) *
                      static_cast<double>(size_of(cache_element_type_of(problem_)));
  const std::int64_t dims_k = problem_.head_dim_qk + (problem_.latent ? 0 : problem_.head_dim_v);
  return queries * static_cast<double>(problem_.head_dim_qk + problem_.head_dim_v) + keys * static_cast<double>(dims_k);
}

}  // namespace tilesmith
