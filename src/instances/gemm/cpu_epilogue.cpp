#include "instances/gemm/cpu_epilogue.hpp"

#include <fmt/format.h>

#include "vocabulary/traits.hpp"

namespace tilesmith {
namespace {

/// A gate's function.
EpilogueOp function_of(EpilogueOp gate) {
  switch (gate) {
    case EpilogueOp::glu:
      return EpilogueOp::sigmoid;
    case EpilogueOp::reglu:
      return EpilogueOp::relu;
    case EpilogueOp::geglu:
      return EpilogueOp::gelu;
    case EpilogueOp::geglu_tanh:
      return EpilogueOp::gelu_tanh;
    case EpilogueOp::swiglu:
      return EpilogueOp::silu;
    default:
      return EpilogueOp::none;
  }
}
EpilogueOp gate_of(EpilogueOp function) {
  for (const EpilogueOp gate :
       {EpilogueOp::glu, EpilogueOp::reglu, EpilogueOp::geglu, EpilogueOp::geglu_tanh, EpilogueOp::swiglu})
    if (function_of(gate) == function) return gate;
  return EpilogueOp::none;
}

/// Walks a list through the kernels' order.
class Walk {
 public:
  /// `c_free`: an added tensor may take C's place. `scales_fit`: nothing but products has been added up before the
  /// list begins.
  Walk(bool c_free, bool scales_fit) : c_free_(c_free), scales_fit_(scales_fit) {}

  bool take(EpilogueOp op, int at) {
    switch (op) {
      case EpilogueOp::scale_m:
        return scales_fit_ && stage_ == Stage::scales && place(terms_.row_scale, at);
      case EpilogueOp::scale_n:
        return scales_fit_ && stage_ == Stage::scales && place(terms_.column_scale, at);
      case EpilogueOp::bias:
      case EpilogueOp::bias_m:
        terms_.bias_along_m = op == EpilogueOp::bias_m;
        return advance(Stage::linear) && place(terms_.bias, at);
      case EpilogueOp::add:
        if (c_free_ && terms_.c < 0 && advance(Stage::linear)) return place(terms_.c, at);
        return extra(at, false);
      case EpilogueOp::multiply:
        return extra(at, true);
      case EpilogueOp::clamp:
        return stage_ < Stage::clamp && advance(Stage::clamp) && place(terms_.clamp, at);
      case EpilogueOp::amax:
        terms_.amax = true;
        return advance(Stage::amax);
      default:
        if (stage_ < Stage::activation) {
          terms_.gated = is_gate(op);
          terms_.activation = is_gate(op) ? function_of(op) : op;
          return advance(Stage::activation);
        }
        terms_.clamp_is_relu = true;
        return op == EpilogueOp::relu && stage_ < Stage::clamp && advance(Stage::clamp);
    }
  }

  [[nodiscard]] const CpuGemmEpilogue& terms() const { return terms_; }

 private:
  enum class Stage { scales, linear, activation, extras, clamp, amax };

  bool advance(Stage to) {
    if (stage_ > to) return false;
    stage_ = to;
    return true;
  }
  static bool place(int& where, int at) {
    if (where >= 0) return false;
    where = at;
    return true;
  }
  bool extra(int at, bool multiply) {
    if (!advance(Stage::extras) || terms_.extras == CpuGemmEpilogue::kMaxExtras) return false;
    if (terms_.extras > 0 && terms_.extras_multiply != multiply) return false;
    terms_.extras_multiply = multiply;
    terms_.extra[static_cast<std::size_t>(terms_.extras++)] = at;
    return true;
  }

  bool c_free_, scales_fit_;
  Stage stage_ = Stage::scales;
  CpuGemmEpilogue terms_;
};

Result<CpuGemmEpilogue> walk(const GemmEpilogue& epilogue, Walk walk) {
  for (std::size_t i = 0; i < epilogue.size(); ++i)
    if (!walk.take(epilogue[i], static_cast<int>(i)))
      return fail(ErrorCode::unsupported,
                  fmt::format("CPU kernels do not carry {} at place {} of the epilogue", name_of(epilogue[i]), i),
                  "scales (without C); add (in C's place); one bias; one activation or gate; up to 4 tensors to add or "
                  "to multiply; clamp or relu; amax");
  return walk.terms();
}

}  // namespace

GemmEpilogue CpuGemmEpilogue::normal_form() const {
  GemmEpilogue list;
  if (row_scale >= 0) list.push_back(EpilogueOp::scale_m);
  if (column_scale >= 0) list.push_back(EpilogueOp::scale_n);
  if (bias >= 0) list.push_back(bias_along_m ? EpilogueOp::bias_m : EpilogueOp::bias);
  if (activation != EpilogueOp::none) list.push_back(gated ? gate_of(activation) : activation);
  for (int i = 0; i < extras; ++i) list.push_back(extras_multiply ? EpilogueOp::multiply : EpilogueOp::add);
  if (clamp >= 0 || clamp_is_relu) list.push_back(EpilogueOp::clamp);
  if (amax) list.push_back(EpilogueOp::amax);
  return list;
}

Result<CpuGemmEpilogue> cpu_gemm_epilogue(const GemmEpilogue& epilogue, bool beta) {
  return walk(epilogue, Walk(!beta, !beta));
}

Result<CpuGemmEpilogue> cpu_gemm_kernel_terms(const GemmEpilogue& normal) {
  return walk(normal, Walk(false, true));
}

}  // namespace tilesmith
