#include "trial/attention/case.hpp"

#include <algorithm>

#include "problem/attention/pages.hpp"
#include "problem/attention/problem.hpp"
#include "verify/attention/naive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
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
