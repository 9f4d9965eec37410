#include "problem/conv/matrix.hpp"

#include <algorithm>

#include "problem/conv/problem.hpp"
#include "problem/derive.hpp"

namespace tilesmith {
namespace {

constexpr ConvSpatial kOnes{1, 1, 1};
constexpr ConvSpatial kZeros{0, 0, 0};

/// Elements from one pixel of x or y, which are evenly apart, to the next.
std::int64_t step_of(const ConvProblem& p, const ConvStrides& s, const ConvSpatial& size, std::int64_t channels) {
  for (std::size_t d = size.size(); d-- > 0;)
    if (size[d] > 1) return s.spatial[d];
  return p.batch > 1 ? s.batch : p.groups * channels;
}

/// From one filter to the next.
std::int64_t filter_step(const ConvProblem& p, const ConvStrides& s) {
  return p.k > 1 ? s.batch : p.c;
}

}  // namespace

bool is_pointwise(const ConvProblem& p) {
  return p.batch > 0 && !p.unaligned && p.filter() == kOnes && p.stride() == kOnes && p.pad() == kZeros &&
         p.pad_high() == kZeros;
}

std::optional<GemmProblem> gemm_of(const ConvProblem& p) {
  if (!is_pointwise(p)) return {};
  if (p.groups > 1 && std::ranges::any_of(p.epilogue, reads_vector)) return {};
  GemmProblem g;
  g.type_a = g.type_b = p.data_type;
  g.type_c = g.type_d = p.type_out;
  g.type_bias = p.type_bias;
  g.batch = p.groups;
  g.epilogue = p.epilogue;
  switch (p.direction) {
    case ConvDirection::forward:
      g.m = pixels_of_y(p);
      g.n = p.k;
      g.k = p.c;
      break;
    case ConvDirection::backward_data:
      g.m = pixels_of_x(p);
      g.n = p.c;
      g.k = p.k;
      g.order_b = MatrixOrder::row;
      break;
    case ConvDirection::backward_weight:
      g.m = p.k;
      g.n = p.c;
      g.k = pixels_of_y(p);
      g.order_a = MatrixOrder::column;
      g.order_b = MatrixOrder::row;
      break;
  }
  // What the problem promises of its tensors is what those have whose channels are last.
  return derived(g, gemm_arguments(p, dense_arguments(p, ConvLayout::channels_last)));
}

GemmArguments gemm_arguments(const ConvProblem& p, const ConvArguments& a) {
  const GemmOperand x{a.x, step_of(p, a.x_strides, p.in(), p.c), a.x_strides.group};
  const GemmOperand y{a.y, step_of(p, a.y_strides, p.out(), p.k), a.y_strides.group};
  const GemmOperand w{a.w, filter_step(p, a.w_strides), a.w_strides.group};
  const bool forward = p.direction == ConvDirection::forward, weight = p.direction == ConvDirection::backward_weight;
  GemmArguments out;
  out.a = forward ? x : y;
  out.b = weight ? x : w;
  const GemmOperand& d = forward ? y : weight ? w : x;
  out.d = a.out;
  out.d_leading = d.leading;
  out.d_batch = d.batch;
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) {
    const ConvOperand& from = a.epilogue[i];
    EpilogueOperand& to = out.epilogue[i];
    to.data = from.data;
    to.low = from.low;
    to.high = from.high;
    if (!reads_tensor(p.epilogue[i])) continue;
    to.leading = step_of(p, from.strides, forward ? p.out() : p.in(), forward ? p.k : p.c);
    to.batch = from.strides.group;
  }
  return out;
}

}  // namespace tilesmith
