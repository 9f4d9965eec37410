#include "problem/derive.hpp"

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
  out.unaligned |= any_off(arguments.q_strides, in) || any_off(arguments.k_strides, cached) ||
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
  out.unaligned |= any_off(arguments.a, problem.type_a) ||
                   (!problem.packed_b && any_off(arguments.b, problem.type_b)) ||
                   any_off(arguments.a2, problem.type_a) || any_off(arguments.b2, problem.type_b);
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
