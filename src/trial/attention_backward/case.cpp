#include "trial/attention_backward/case.hpp"

#include <fmt/format.h>

#include "base/random.hpp"
#include "problem/attention_backward/problem.hpp"
#include "problem/derive.hpp"
#include "trial/tf32.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Stream numbers of this case's tensors, behind those of attention forward's.
enum BackwardStream : std::uint64_t { kDout = 101, kDlse };

TensorStrides backward_strides(const AttentionStrides& s) {
  return {s.batch, s.head, s.row, 1};
}

/// A dense array in the layout of an output, from values in the order batch, head, row, column.
HostArray array_of(const OutputSpec& spec, const std::vector<double>& values) {
  std::vector<std::int64_t> shape;
  const TensorExtents& e = spec.extents;
  for (const Axis axis : spec.axes)
    shape.push_back(axis == Axis::batch ? e.batch : axis == Axis::head ? e.head : axis == Axis::row ? e.row : e.column);
  std::vector<float> placed(values.size());
  std::size_t at = 0;
  for (std::int64_t b = 0; b < e.batch; ++b)
    for (std::int64_t h = 0; h < e.head; ++h)
      for (std::int64_t r = 0; r < e.row; ++r)
        for (std::int64_t c = 0; c < e.column; ++c)
          placed[static_cast<std::size_t>(b * spec.strides.batch + h * spec.strides.head + r * spec.strides.row +
                                          c * spec.strides.column)] = static_cast<float>(values[at++]);
  return make_array(spec.type, shape, placed);
}

HostArray random_array(const HostArray& like, ElementType type, RandomStream stream) {
  std::vector<float> values(like.data.size() / size_of(like.type));
  fill_normal(values, stream);
  return make_array(type, like.shape, values);
}

}  // namespace

Result<AttentionBackwardCase> AttentionBackwardCase::create(const RandomCall<AttentionBwd>& call,
                                                            AttentionBackwardInputs given) {
  TS_TRY(validate(call.problem));
  RandomCall<AttentionFwd> forward_call{.problem = forward_of(call.problem), .numbers = call.numbers};
  TS_ASSIGN(AttentionCase forward, AttentionCase::create(forward_call, std::move(given.forward)));
  AttentionBackwardCase out(call.problem, std::move(forward));

  const std::vector<OutputSpec> results = out.forward_.outputs();
  TS_ASSIGN(const Float64Attention float64, float64_attention(out.forward_.tensors()));
  out.o_ = array_of(results[0], float64.o);
  out.lse_ = array_of(results[1], float64.lse);
  const RandomStream stream{call.numbers.seed, kDout};
  if (given.dout.data.empty()) {
    out.dout_ = random_array(out.o_, out.o_.type, stream);
  } else {
    if (given.dout.shape != out.o_.shape)
      return fail(ErrorCode::invalid_argument, fmt::format("dout has shape {}", shape_text(given.dout.shape)),
                  fmt::format("shape {}, that of the output", shape_text(out.o_.shape)));
    out.dout_ = make_array(out.o_.type, given.dout.shape, given.dout.to_floats());
  }
  if (call.problem.data_type == DataType::tf32) round_to_tf32(out.dout_);
  if (call.problem.dlse) out.dlse_ = random_array(out.lse_, ElementType::fp32, {call.numbers.seed, kDlse});

  const AttentionProblem& found = out.forward_.problem();
  out.problem_.negative_scale = found.negative_scale;
  out.problem_.unaligned = found.unaligned;
  out.problem_.unaligned_bias = found.unaligned_bias;
  return out;
}

std::vector<NamedInput> AttentionBackwardCase::inputs() const {
  std::vector<NamedInput> out = forward_.inputs();
  for (const auto& [name, array] :
       {std::pair{"o", &o_}, std::pair{"lse", &lse_}, std::pair{"dout", &dout_}, std::pair{"dlse", &dlse_}})
    out.push_back({name, array->data.data(), array->data.size()});
  return out;
}

std::vector<OutputSpec> AttentionBackwardCase::outputs() const {
  const AttentionBackwardProblem& p = problem_;
  const bool batched = p.mode == SequenceMode::batch;
  const AttentionArguments dense = forward_.arguments();
  const std::int64_t batches = batched ? p.batch : 1;
  const std::int64_t rows_q = batched ? p.seqlen_q : dense.total_q, rows_k = batched ? p.seqlen_k : dense.total_k;
  const bool bhsd = layout() == AttentionLayout::bhsd;
  std::vector<Axis> axes = bhsd ? std::vector{Axis::batch, Axis::head, Axis::row, Axis::column}
                                : std::vector{Axis::batch, Axis::row, Axis::head, Axis::column};
  if (!batched) axes.erase(axes.begin());
  std::vector<OutputSpec> out;
  const auto add = [&](const char* name, std::int64_t heads, std::int64_t rows, std::int64_t columns,
                       const AttentionStrides& strides) {
    out.push_back({.name = name,
                   .type = input_element_type_of(forward_.problem()),
                   .extents = {batches, heads, rows, columns},
                   .strides = backward_strides(strides),
                   .axes = axes});
  };
  add("dq", p.heads_q, rows_q, p.head_dim_qk, dense.q_strides);
  add("dk", p.heads_kv, rows_k, p.head_dim_qk, dense.k_strides);
  add("dv", p.heads_kv, rows_k, p.head_dim_v, dense.v_strides);
  if (p.dbias) {
    const TensorExtents e = tensors().dbias_extents();
    out.push_back({.name = "dbias",
                   .extents = e,
                   .strides = {e.head * e.row * e.column, e.row * e.column, e.column, 1},
                   .axes = {Axis::batch, Axis::head, Axis::row, Axis::column}});
  }
  if (p.dalibi) {
    const std::int64_t slopes = dense.alibi_batch_stride != 0 ? p.batch : 1;
    out.push_back(
        {.name = "dalibi",
         .extents = {slopes, p.heads_q, 1, 1},
         .strides = {p.heads_q, 1, 1, 1},
         .axes = dense.alibi_batch_stride != 0 ? std::vector{Axis::batch, Axis::head} : std::vector{Axis::head}});
  }
  if (p.dsink)
    out.push_back({.name = "dsink", .extents = {1, p.heads_q, 1, 1}, .strides = {0, 1, 1, 1}, .axes = {Axis::head}});
  return out;
}

AttentionBackwardArguments AttentionBackwardCase::arguments(const CallMemory& memory) const {
  AttentionBackwardArguments a;
  a.forward = forward_.arguments(memory);
  // The forward's results are inputs here, dense ones that nothing writes.
  a.forward.o = const_cast<void*>(memory.input("o"));
  a.forward.lse = const_cast<float*>(memory.input<float>("lse"));
  a.dout = memory.input("dout");
  a.dlse = memory.input<float>("dlse");
  a.dout_strides = a.forward.o_strides;
  a.dlse_strides = a.forward.lse_strides;
  a.dq = memory.output("dq");
  a.dk = memory.output("dk");
  a.dv = memory.output("dv");
  a.dbias = memory.output<float>("dbias");
  a.dalibi = memory.output<float>("dalibi");
  a.dsink = memory.output<float>("dsink");
  const auto set_strides = [&](AttentionStrides& strides, const char* name) {
    if (const OutputSpec* spec = memory.output_spec(name))
      strides = {spec->strides.batch, spec->strides.head, spec->strides.row};
  };
  set_strides(a.dq_strides, "dq");
  set_strides(a.dk_strides, "dk");
  set_strides(a.dv_strides, "dv");
  if (const OutputSpec* spec = memory.output_spec("dbias")) {
    const auto step = [](std::int64_t size, std::int64_t stride) { return size > 1 ? stride : 0; };
    const TensorExtents& e = spec->extents;
    a.dbias_strides = {step(e.batch, spec->strides.batch), step(e.head, spec->strides.head),
                       step(e.row, spec->strides.row), step(e.column, spec->strides.column)};
  }
  if (a.forward.alibi_batch_stride != 0) a.dalibi_batch_stride = problem_.heads_q;
  return a;
}

AttentionBackwardTensors AttentionBackwardCase::tensors() const {
  const AttentionArguments dense = forward_.arguments();
  const ElementType type = input_element_type_of(forward_.problem());
  const BiasStrides& bias = dense.bias_strides;
  AttentionBackwardTensors out;
  out.forward = forward_.tensors();
  out.o = {o_.data.data(), type, backward_strides(dense.o_strides), {}};
  out.dout = {dout_.data.data(), type, backward_strides(dense.o_strides), {}};
  out.lse = reinterpret_cast<const float*>(lse_.data.data());
  out.lse_strides = backward_strides(dense.lse_strides);
  out.dlse = problem_.dlse ? reinterpret_cast<const float*>(dlse_.data.data()) : nullptr;
  out.dlse_strides = out.lse_strides;
  out.dbias = problem_.dbias;
  out.dalibi = problem_.dalibi;
  out.dsink = problem_.dsink;
  out.dbias_batch = bias.batch != 0;
  out.dbias_head = bias.head != 0;
  out.dbias_row = bias.row != 0;
  out.dbias_column = bias.column != 0;
  out.dalibi_batch = dense.alibi_batch_stride != 0;
  return out;
}

Result<std::unique_ptr<const Reference>> AttentionBackwardCase::reference(unsigned threads) const {
  TS_ASSIGN(AttentionBackwardReference made, AttentionBackwardReference::make(tensors(), threads));
  return std::make_unique<const AttentionBackwardReference>(std::move(made));
}

Status AttentionBackwardCase::run_naive(unsigned) const {
  return fail(ErrorCode::unsupported, "attention backward has no naive computation", "--op attention_fwd, or gemm");
}

double AttentionBackwardCase::flops() const {
  return 2.0 * static_cast<double>(3 * problem_.head_dim_qk + 2 * problem_.head_dim_v) * forward_.visible_pairs();
}

}  // namespace tilesmith
