#include "problem/gemm/transpose.hpp"

#include <utility>

namespace tilesmith {
namespace {

MatrixOrder turned(MatrixOrder order) {
  return order == MatrixOrder::row ? MatrixOrder::column : MatrixOrder::row;
}

EpilogueOp turned(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::bias:
      return EpilogueOp::bias_m;
    case EpilogueOp::bias_m:
      return EpilogueOp::bias;
    case EpilogueOp::scale_n:
      return EpilogueOp::scale_m;
    case EpilogueOp::scale_m:
      return EpilogueOp::scale_n;
    default:
      return op;
  }
}

}  // namespace

GemmProblem transposed(const GemmProblem& problem) {
  GemmProblem out = problem;
  std::swap(out.m, out.n);
  std::swap(out.type_a, out.type_b);
  out.order_a = turned(problem.order_b);
  out.order_b = turned(problem.order_a);
  out.order_d = turned(problem.order_d);
  out.prefetch_weights = false;  // a promise about what is A now
  out.epilogue = {};
  for (const EpilogueOp op : problem.epilogue) out.epilogue.push_back(turned(op));
  return out;
}

GemmProblem with_row_d(const GemmProblem& problem) {
  return has_column_d(problem) ? transposed(problem) : problem;
}

GemmArguments transposed(const GemmArguments& arguments) {
  GemmArguments out = arguments;
  std::swap(out.a, out.b);
  std::swap(out.a2, out.b2);
  return out;
}

}  // namespace tilesmith
