#include "codegen/essential.hpp"

#include "instances/attention/cpu.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/conv/cpu.hpp"
#include "instances/gemm/cpu.hpp"

namespace tilesmith {
namespace {

constexpr std::uint16_t kHeadDims[] = {64, 128};

/// The tile in the middle of what the level offers: no bad choice for any length.
const KernelConfig* middle(const std::vector<KernelConfig>& tiles) {
  return tiles.empty() ? nullptr : &tiles[tiles.size() / 2];
}

void add_attention(std::vector<KernelConfig>& set, const CpuSpec& spec, const AttentionSignature& signature) {
  std::vector<KernelConfig> flash;
  enumerate_cpu_attention(spec, signature, [&](const KernelConfig& config) {
    if (config.algorithm.pipeline == Pipeline::flash) flash.push_back(config);
    return true;
  });
  if (const KernelConfig* chosen = middle(flash)) set.push_back(*chosen);
}

void add_all_attention(std::vector<KernelConfig>& set, const CpuSpec& spec) {
  AttentionSignature signature;
  signature.mask = MaskKind::generic;
  signature.lse = true;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (const std::uint16_t dim : kHeadDims)
      for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group}) {
        signature.data_type = type;
        signature.head_dim_qk = signature.head_dim_v = dim;
        signature.mode = mode;
        signature.bias = BiasKind::none;
        signature.dropout = signature.soft_cap = signature.sink = false;
        add_attention(set, spec, signature);
        signature.soft_cap = true;
        add_attention(set, spec, signature);
        signature.soft_cap = false;
        signature.bias = BiasKind::alibi;
        add_attention(set, spec, signature);
        signature.bias = BiasKind::elementwise;
        signature.dropout = signature.sink = true;
        add_attention(set, spec, signature);
      }
}

/// The products themselves in every layout, and what linear layers add to them.
void add_all_gemm(std::vector<KernelConfig>& set, const CpuSpec& spec) {
  const GemmEpilogue epilogues[] = {{},
                                    {EpilogueOp::bias},
                                    {EpilogueOp::bias, EpilogueOp::relu},
                                    {EpilogueOp::bias, EpilogueOp::gelu},
                                    {EpilogueOp::bias, EpilogueOp::silu}};
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::int8})
    for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
      for (const MatrixOrder order_b : {MatrixOrder::column, MatrixOrder::row})
        for (const GemmEpilogue& epilogue : epilogues) {
          const bool linear = order_a == MatrixOrder::row && order_b == MatrixOrder::column && type != DataType::int8;
          if (!epilogue.empty() && !linear) continue;
          GemmSignature signature;
          signature.a = signature.b = type;
          signature.c = signature.aux = type == DataType::int8 ? DataType::int32 : type;
          signature.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
          if (!epilogue.empty()) signature.bias = type;
          signature.layout_a = order_a;
          signature.layout_b = order_b;
          signature.epilogue_ops = epilogue;
          std::vector<KernelConfig> blocked;
          enumerate_cpu_gemm(spec, signature, [&](const KernelConfig& config) {
            if (config.algorithm.pipeline == Pipeline::blocked && !config.algorithm.split_k) blocked.push_back(config);
            return true;
          });
          if (const KernelConfig* chosen = middle(blocked)) set.push_back(*chosen);
        }
}

}  // namespace

std::vector<KernelConfig> essential_configs(const CpuSpec& spec) {
  std::vector<KernelConfig> set;
  for (const DataType type : generic_cpu_attention_types()) set.push_back(generic_cpu_attention(spec, type));
  for (const DataType type : generic_cpu_attention_backward_types())
    set.push_back(generic_cpu_attention_backward(spec, type));
  if (const auto generic = generic_cpu_gemm(spec)) set.push_back(*generic);
  enumerate_cpu_conv(spec, [&](const KernelConfig& config) {
    if (config.algorithm.pipeline == Pipeline::blocked) set.push_back(config);  // computes depthwise problems too
    return true;
  });
  add_all_attention(set, spec);
  add_all_gemm(set, spec);
  return set;
}

}  // namespace tilesmith
