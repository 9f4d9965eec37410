#include "choose/gemm/gpu_signature.hpp"

#include <fmt/format.h>

#include "problem/gemm/problem.hpp"

namespace tilesmith {

Result<GemmSignature> gpu_signature_of(const GemmProblem& p) {
  if (p.packed_b)
    return fail(ErrorCode::unsupported, "kernels of GPUs read no packed B",
                "B as it lies, which they read at full speed");
  GemmSignature s;
  s.a = p.type_a;
  s.b = p.type_b;
  s.c = p.type_d;
  s.accumulator = p.type_a == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.aux = p.type_d;
  s.grouping = p.grouping;
  s.zero_points = p.zero_points;
  if (has_weights(p))
    s.scale = p.type_scale;
  else if (p.group_size != 0)
    s.qscale = QuantScale::blockscale;
  s.mm_plus_mm = p.k2 != 0;
  s.layout_a = p.order_a;
  s.layout_b = p.order_b;
  if (p.beta) s.epilogue_ops.push_back(EpilogueOp::add);
  for (const EpilogueOp op : p.epilogue)
    if (!s.epilogue_ops.push_back(op))
      return fail(
          ErrorCode::unsupported,
          fmt::format("beta * C and an epilogue of {} operations are more than a kernel carries", p.epilogue.size()),
          fmt::format("at most {} with C", GemmEpilogue::kMax - 1));
  for (const EpilogueOp op : s.epilogue_ops) {
    if (reads_tensor(op)) s.aux = p.type_c;
    if (op == EpilogueOp::bias || op == EpilogueOp::bias_m) s.bias = p.type_bias;
  }
  return s;
}

}  // namespace tilesmith
