#include "problem/derive.hpp"

#include <numeric>

#include "problem/attention/append.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// Whether a step of so many elements is no multiple of 16 bytes.
bool is_off(std::int64_t elements, int bits) {
  return elements * bits / 8 % 16 != 0;
}

}  // namespace

AttentionProblem derived(const AttentionProblem& problem, const AttentionArguments& arguments) {
  AttentionProblem out = problem;
  out.negative_scale |= arguments.scale < 0;
  const int in = bits_of(input_type(problem.data_type)), written = bits_of(output_type(problem.data_type));
  const int cached = static_cast<int>(8 * cache_bytes(problem));
  const auto any_off = [](const AttentionStrides& s, int bits) { return is_off(s.batch | s.head | s.row, bits); };
  out.unaligned |= any_off(attended(problem, arguments).q_strides, in) || any_off(arguments.k_strides, cached) ||
                   (!problem.latent && any_off(arguments.v_strides, cached)) || any_off(arguments.o_strides, written);
  // The stride of a dimension's only member is not read.
  const BiasStrides& b = arguments.bias_strides;
  const auto step = [](std::int64_t size, std::int64_t stride) { return size > 1 ? stride : 0; };
  const std::int64_t steps =
      step(problem.batch, b.batch) | step(problem.heads_q, b.head) | step(problem.seqlen_q, b.row);
  out.unaligned_bias |= problem.bias == BiasKind::elementwise &&
                        ((b.column != 1 && problem.seqlen_k > 1) || is_off(steps, bits_of(DataType::fp32)));
  return out;
}

AttentionBackwardProblem derived(const AttentionBackwardProblem& problem, const AttentionBackwardArguments& arguments) {
  AttentionBackwardProblem out = problem;
  const AttentionProblem forward = derived(forward_of(problem), arguments.forward);
  out.negative_scale = forward.negative_scale;
  out.unaligned = forward.unaligned;
  out.unaligned_bias = forward.unaligned_bias;
  const int bits = bits_of(problem.data_type);
  for (const AttentionStrides* s :
       {&arguments.dout_strides, &arguments.dq_strides, &arguments.dk_strides, &arguments.dv_strides})
    out.unaligned |= is_off(s->batch | s->head | s->row, bits);
  return out;
}

GemmProblem derived(const GemmProblem& problem, const GemmArguments& arguments) {
  GemmProblem out = problem;
  const auto any_off = [&](const GemmOperand& matrix, DataType type) {
    return is_off(matrix.leading | (problem.batch > 1 ? matrix.batch : 0), static_cast<int>(bits_of(type)));
  };
  const bool off = any_off(arguments.a, problem.type_a) ||
                   (!problem.packed_b && any_off(arguments.b, problem.type_b)) ||
                   any_off(arguments.a2, problem.type_a) || any_off(arguments.b2, problem.type_b);
  out.aligned_d |= off && !problem.unaligned;
  out.unaligned |= off;
  return out;
}

ConvProblem derived(const ConvProblem& problem, const ConvArguments& arguments) {
  const ConvProblem& p = problem;
  constexpr std::int64_t kUnitBytes = 16;
  /// A tensor; filters: w, whose groups are members as its filters are.
  const auto is_off_dense = [&](const void* data, const ConvStrides& s, std::int64_t members, std::int64_t channels,
                                const ConvSpatial& size, bool filters, DataType type) {
    const std::int64_t unit = std::gcd(kUnitBytes * 8 / bits_of(type), filters ? channels : p.groups * channels);
    bool off = reinterpret_cast<std::uintptr_t>(data) % kUnitBytes != 0 || (channels > 1 && s.channel != 1) ||
               (p.groups > 1 && (filters ? s.group % unit != 0 : s.group != channels));
    if (filters) off |= members > 1 && s.batch % unit != 0;
    // The stride of a dimension's only member is not read. The first of the others is the step; those outside of it
    // follow from it and the sizes.
    std::int64_t follows = 0;
    const auto even = [&](std::int64_t count, std::int64_t stride) {
      if (count > 1) off |= follows == 0 ? stride % unit != 0 : stride != follows;
      if (count > 1 || follows != 0) follows = (follows == 0 ? stride : follows) * count;
    };
    for (std::size_t d = size.size(); d-- > 0;) even(size[d], s.spatial[d]);
    if (!filters) even(members, s.batch);
    return off;
  };
  const auto x_is_off = [&](const void* data, const ConvStrides& s, DataType type) {
    return is_off_dense(data, s, p.batch, p.c, p.in(), false, type);
  };
  const auto y_is_off = [&](const void* data, const ConvStrides& s, DataType type) {
    return is_off_dense(data, s, p.batch, p.k, p.out(), false, type);
  };
  const bool writes_y = p.direction == ConvDirection::forward, writes_x = p.direction == ConvDirection::backward_data;
  const bool writes_w = p.direction == ConvDirection::backward_weight;
  const auto type = [&](bool written) { return written ? p.type_out : p.data_type; };
  const ConvArguments& a = arguments;
  ConvProblem out = problem;
  out.unaligned |=
      x_is_off(writes_x ? a.out : a.x, a.x_strides, type(writes_x)) ||
      y_is_off(writes_y ? a.out : a.y, a.y_strides, type(writes_y)) ||
      (!p.packed_w && is_off_dense(writes_w ? a.out : a.w, a.w_strides, p.k, p.c, p.filter(), true, type(writes_w)));
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const ConvOperand& x = a.epilogue[i];
    if (reads_vector(p.epilogue[i])) out.unaligned |= reinterpret_cast<std::uintptr_t>(x.data) % kUnitBytes != 0;
    if (reads_tensor(p.epilogue[i]))
      out.unaligned |= writes_y ? y_is_off(x.data, x.strides, p.type_out) : x_is_off(x.data, x.strides, p.type_out);
  }
  return out;
}

AttentionProblem with_derived_fields(const AttentionProblem& problem) {
  return validate(problem) ? derived(problem, dense_arguments(problem, AttentionLayout::bhsd)) : problem;
}

AttentionBackwardProblem with_derived_fields(const AttentionBackwardProblem& problem) {
  return validate(problem) ? derived(problem, dense_arguments(problem, AttentionLayout::bhsd)) : problem;
}

GemmProblem with_derived_fields(const GemmProblem& problem) {
  return validate(problem) ? derived(problem, dense_arguments(problem)) : problem;
}

}  // namespace tilesmith
