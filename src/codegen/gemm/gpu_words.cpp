#include "codegen/gemm/gpu_words.hpp"

#include <vector>

#include "kernels/gpu/gemm/words.h"

namespace tilesmith {
namespace {

Result<int> operation_number(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::none:
      return TS_GEMM_NONE;
    case EpilogueOp::bias:
      return TS_GEMM_BIAS_N;
    case EpilogueOp::bias_m:
      return TS_GEMM_BIAS_M;
    case EpilogueOp::scale_n:
      return TS_GEMM_SCALE_N;
    case EpilogueOp::scale_m:
      return TS_GEMM_SCALE_M;
    case EpilogueOp::add:
      return TS_GEMM_ADD;
    case EpilogueOp::multiply:
      return TS_GEMM_MULTIPLY;
    case EpilogueOp::relu:
      return TS_GEMM_RELU;
    case EpilogueOp::gelu:
      return TS_GEMM_GELU;
    case EpilogueOp::gelu_tanh:
      return TS_GEMM_GELU_TANH;
    case EpilogueOp::silu:
      return TS_GEMM_SILU;
    case EpilogueOp::sigmoid:
      return TS_GEMM_SIGMOID;
    case EpilogueOp::tanh:
      return TS_GEMM_TANH;
    case EpilogueOp::clamp:
      return TS_GEMM_CLAMP;
    case EpilogueOp::glu:
      return TS_GEMM_GATE_SIGMOID;
    case EpilogueOp::geglu:
      return TS_GEMM_GATE_GELU;
    case EpilogueOp::geglu_tanh:
      return TS_GEMM_GATE_GELU_TANH;
    case EpilogueOp::swiglu:
      return TS_GEMM_GATE_SILU;
    case EpilogueOp::reglu:
      return TS_GEMM_GATE_RELU;
    case EpilogueOp::amax:
      return TS_GEMM_AMAX;
  }
  return fail(ErrorCode::unsupported, "no GPU GEMM template carries this operation of the epilogue");
}

}  // namespace

Result<int> gemm_type_number(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
      return TS_GEMM_F32;
    case DataType::bf16:
      return TS_GEMM_BF16;
    case DataType::fp16:
      return TS_GEMM_F16;
    case DataType::fp8:
      return TS_GEMM_E4M3;
    case DataType::bf8:
      return TS_GEMM_E5M2;
    case DataType::int8:
      return TS_GEMM_S8;
    case DataType::int32:
      return TS_GEMM_S32;
    case DataType::int4:
      return TS_GEMM_S4;
    default:
      return fail(ErrorCode::unsupported, fmt::format("no GPU GEMM template carries {}", name_of(type)));
  }
}

Status add_gemm_epilogue(ConstantsTable& table, const GemmEpilogue& epilogue, DataType tensors, DataType bias) {
  TS_ASSIGN(const int tensor_type, gemm_type_number(tensors));
  TS_ASSIGN(const int bias_type, gemm_type_number(bias));
  std::vector<int> operations, types;
  for (const EpilogueOp op : epilogue) {
    TS_ASSIGN(const int operation, operation_number(op));
    operations.push_back(operation);
    const bool reads_bias = op == EpilogueOp::bias || op == EpilogueOp::bias_m;
    types.push_back(reads_tensor(op) ? tensor_type : reads_bias ? bias_type : int{TS_GEMM_F32});
  }
  table.add("kEpilogue", operations);
  table.add("kEpilogueTypes", types);
  table.add("kEpilogueLength", operations.size());
  return {};
}

}  // namespace tilesmith
