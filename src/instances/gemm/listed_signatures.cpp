#include "instances/gemm/listed_signatures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tilesmith {
namespace {

/// The results worth listing for matrices of a type.
std::vector<DataType> results_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return {DataType::int32, DataType::bf16, DataType::fp32, DataType::int8};
    case DataType::fp8:
    case DataType::bf8:
      return {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8};
    case DataType::fp32:
    case DataType::tf32:
      return {DataType::fp32};
    default:
      return {type, DataType::fp32};
  }
}

}  // namespace

void listed_gemm_signatures(std::span<const DataType> types, std::span<const GemmEpilogue> epilogues,
                            std::string_view layout, GemmSignatureSink sink) {
  GemmSignature signature;
  for (const DataType type : types)
    for (const DataType result : results_of(type))
      for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
        for (const MatrixOrder order_b : {MatrixOrder::column, MatrixOrder::row}) {
          if (!layout.empty() && layout != fmt::format("{}{}r", name_of(order_a), name_of(order_b))) continue;
          for (const GemmEpilogue& epilogue : epilogues) {
            if (result == DataType::int32 && !epilogue.empty()) continue;
            const bool has_bias = std::ranges::any_of(
                epilogue, [](EpilogueOp op) { return op == EpilogueOp::bias || op == EpilogueOp::bias_m; });
            const bool wide = result == DataType::fp32 || result == DataType::fp16 || result == DataType::bf16;
            signature.layout_a = order_a;
            signature.layout_b = order_b;
            signature.a = signature.b = type;
            signature.c = signature.aux = result;
            signature.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
            signature.bias = !has_bias ? GemmSignature{}.bias : wide ? result : DataType::fp32;
            signature.epilogue_ops = epilogue;
            if (!sink(signature)) return;
          }
        }
}

}  // namespace tilesmith
