#include "dispatch/gemm/cpu_arguments.hpp"

#include <bit>
#include <cstddef>
#include <limits>

#include "dispatch/gemm/cpu_packed_b.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

namespace {

// Generic kernels read the caller's operands as they lie, and count operations alike.
static_assert(sizeof(TsGemmOperand) == sizeof(EpilogueOperand) &&
              offsetof(TsGemmOperand, data) == offsetof(EpilogueOperand, data) &&
              offsetof(TsGemmOperand, leading) == offsetof(EpilogueOperand, leading) &&
              offsetof(TsGemmOperand, batch) == offsetof(EpilogueOperand, batch) &&
              offsetof(TsGemmOperand, low) == offsetof(EpilogueOperand, low) &&
              offsetof(TsGemmOperand, high) == offsetof(EpilogueOperand, high));
static_assert(TS_GEMM_MAX_OPERATIONS == GemmEpilogue::kMax);
constexpr bool is(EpilogueOp op, TsGemmOperation number) {
  return static_cast<int>(op) == static_cast<int>(number);
}
static_assert(is(EpilogueOp::none, TS_END) && is(EpilogueOp::bias, TS_BIAS) && is(EpilogueOp::bias_m, TS_BIAS_M) &&
              is(EpilogueOp::scale_n, TS_SCALE_N) && is(EpilogueOp::scale_m, TS_SCALE_M) &&
              is(EpilogueOp::add, TS_ADD) && is(EpilogueOp::multiply, TS_MULTIPLY) && is(EpilogueOp::relu, TS_RELU) &&
              is(EpilogueOp::gelu, TS_GELU) && is(EpilogueOp::gelu_tanh, TS_GELU_TANH) &&
              is(EpilogueOp::silu, TS_SILU) && is(EpilogueOp::sigmoid, TS_SIGMOID) && is(EpilogueOp::tanh, TS_TANH) &&
              is(EpilogueOp::clamp, TS_CLAMP) && is(EpilogueOp::glu, TS_GLU) && is(EpilogueOp::reglu, TS_REGLU) &&
              is(EpilogueOp::geglu, TS_GEGLU) && is(EpilogueOp::geglu_tanh, TS_GEGLU_TANH) &&
              is(EpilogueOp::swiglu, TS_SWIGLU) && is(EpilogueOp::amax, TS_AMAX));

TsGemmElement element_of(DataType type) {
  switch (type) {
    case DataType::bf16:
      return TS_BF16;
    case DataType::fp16:
      return TS_FP16;
    case DataType::int8:
      return TS_INT8;
    case DataType::int32:
      return TS_INT32;
    case DataType::fp8:
      return TS_FP8E4M3;
    case DataType::bf8:
      return TS_FP8E5M2;
    case DataType::int4:
      return TS_INT4;
    default:
      return TS_FP32;  // tf32 is fp32 in memory; a valid problem has no other type
  }
}

}  // namespace

TsGemmForm generic_form(const GemmProblem& p) {
  TsGemmForm form{.a = element_of(p.type_a),
                  .b = element_of(p.type_b),
                  .c = element_of(p.type_c),
                  .d = element_of(p.type_d),
                  .bias = element_of(p.type_bias),
                  .scale = element_of(p.type_scale),
                  .row_a = p.order_a == MatrixOrder::row,
                  .row_b = p.order_b == MatrixOrder::row,
                  .blocks = p.group_size != 0 && !has_weights(p),
                  .weights = has_weights(p),
                  .zero_points = p.zero_points,
                  .operations = {}};
  for (std::size_t i = 0; i < p.epilogue.size(); ++i) form.operations[i] = static_cast<TsGemmOperation>(p.epilogue[i]);
  return form;
}

TsGenericGemmArgs cpu_arguments(const GemmProblem& p, const CpuGemmEpilogue& terms, const TsGemmForm& form,
                                const GemmArguments& a, std::int64_t splits, int threads, void* workspace) {
  const auto operand = [&](int at) { return a.epilogue[static_cast<std::size_t>(at)]; };
  const auto tensor = [&](int at) { return TsMatrix{operand(at).data, operand(at).leading, operand(at).batch}; };
  const auto floats = [&](int at) { return static_cast<const float*>(operand(at).data); };
  TsGenericGemmArgs out{};
  out.a = {a.a.data, a.a.leading, a.a.batch};
  out.b = {a.b.data, a.b.leading, a.b.batch};
  if (p.packed_b && a.b.data != nullptr)
    out.b = {static_cast<const PackedHeader*>(a.b.data) + 1, 0, 0};  // the panels, shared by the batch
  out.a2 = {a.a2.data, a.a2.leading, a.a2.batch};
  out.b2 = {a.b2.data, a.b2.leading, a.b2.batch};
  out.c = {a.c.data, a.c.leading, a.c.batch};
  out.beta = a.beta;
  if (terms.c >= 0) {
    out.c = tensor(terms.c);
    out.beta = 1;
  }
  for (int i = 0; i < terms.extras; ++i) out.extra[i] = tensor(terms.extra[static_cast<std::size_t>(i)]);
  const auto scales = [](const GemmScales& x) { return TsScales{x.data, x.row, x.block, x.batch}; };
  out.alpha = a.alpha;
  if (p.group_size != 0) {
    out.scale_a = scales(a.scale_a);
    out.scale_b = scales(a.scale_b);
    out.zero_b = scales(a.zero_b);
  } else if (a.alpha != 0) {
    for (const GemmScales& x : {a.scale_a, a.scale_b})
      if (x.data != nullptr) out.alpha *= *static_cast<const float*>(x.data);
  }
  constexpr int kOneBlock = 62;
  out.scale_shift =
      p.group_size == 0 || p.group_size >= p.k ? kOneBlock : std::countr_zero(static_cast<std::uint64_t>(p.group_size));
  if (p.type_b == DataType::int4) {  // in bytes
    out.b.leading /= 2;
    out.b.batch /= 2;
  }
  out.d = a.d;
  out.d_leading = a.d_leading;
  out.d_batch = a.d_batch;
  if (terms.bias >= 0) out.bias = operand(terms.bias).data;
  if (terms.row_scale >= 0) out.row_scale = floats(terms.row_scale);
  if (terms.column_scale >= 0) out.column_scale = floats(terms.column_scale);
  if (terms.clamp_is_relu) out.high = std::numeric_limits<float>::infinity();
  if (terms.clamp >= 0) {
    out.low = operand(terms.clamp).low;
    out.high = operand(terms.clamp).high;
  }
  out.amax = a.amax;
  out.workspace = workspace;
  out.m = p.m;
  out.n = p.n;
  out.k = p.k;
  out.k2 = p.k2;
  out.batch = p.batch;
  out.splits = splits;
  out.threads = threads;
  out.form = &form;
  out.operand = reinterpret_cast<const TsGemmOperand*>(a.epilogue.data());
  return out;
}

}  // namespace tilesmith
