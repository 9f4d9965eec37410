#include "verify/gemm_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace tilesmith {

bool GemmTensors::gated() const {
  return std::ranges::any_of(epilogue, [](const GemmStep& step) { return is_gate(step.op); });
}

Status check_tensors(const GemmTensors& t) {
  for (const auto& [name, size] :
       {std::pair{"batch", t.batch}, std::pair{"m", t.m}, std::pair{"n", t.n}, std::pair{"k", t.k}})
    if (size < 0) return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, size), "sizes are 0 or more");
  if (t.gated() && t.n % 2 != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("a gate joins pairs of columns, and n is {}", t.n),
                "an even n");
  if (t.batch * t.m * t.n == 0) return {};
  if (t.k > 0 && t.alpha != 0 && (t.a.data == nullptr || t.b.data == nullptr))
    return fail(ErrorCode::invalid_argument, "a or b has elements but no data");
  if (t.beta != 0 && t.c.data == nullptr) return fail(ErrorCode::invalid_argument, "beta is not 0, and c has no data");
  for (std::size_t i = 0; i < t.epilogue.size(); ++i) {
    const GemmStep& step = t.epilogue[i];
    if ((reads_vector(step.op) || reads_tensor(step.op)) && step.operand.data == nullptr)
      return fail(ErrorCode::invalid_argument, fmt::format("operation {} of the epilogue has no data", i));
  }
  return {};
}

double element(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t j) {
  const TensorStrides& s = view.strides;
  return load_element(view.type, view.data, static_cast<std::size_t>(b * s.batch + i * s.row + j * s.column));
}

double activated(EpilogueOp op, double x) {
  if (std::isnan(x)) return x;
  const auto sigmoid = [](double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); };
  switch (op) {
    case EpilogueOp::relu:
    case EpilogueOp::reglu:
      return std::max(x, 0.0);
    case EpilogueOp::gelu:
    case EpilogueOp::geglu:
      return x * std::erfc(-x / std::numbers::sqrt2) / 2;
    case EpilogueOp::gelu_tanh:
    case EpilogueOp::geglu_tanh: {
      // (1 + tanh u) / 2 = sigmoid(2 u), which keeps its digits where tanh is nearly -1
      const double u = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
      return x * sigmoid(2 * u);
    }
    case EpilogueOp::silu:
    case EpilogueOp::swiglu:
      return x * sigmoid(x);
    case EpilogueOp::sigmoid:
    case EpilogueOp::glu:
      return sigmoid(x);
    case EpilogueOp::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

}  // namespace tilesmith
