#include "codegen/generate.hpp"

#include <fmt/format.h>

#include "codegen/cpu_attention.hpp"
#include "kernel/native_name.hpp"

namespace tilesmith {
namespace {

Error not_carried(const KernelConfig& config, std::string_view what) {
  return {ErrorCode::unsupported, fmt::format("no CPU template carries {} of {}", what, native_name(config)),
          "tilesmith explain NAME says which rule refuses it"};
}

Result<ElementType> element_of(const KernelConfig& config) {
  switch (config.attention().data_type) {
    case DataType::fp32:
      return ElementType::fp32;
    case DataType::bf16:
      return ElementType::bf16;
    case DataType::fp16:
      return ElementType::fp16;
    default:
      return std::unexpected(not_carried(config, "the data type"));
  }
}

}  // namespace

Result<Source> generate(const KernelConfig& config, const CpuSpec& spec) {
  if (config.operation() != Operation::attention) return std::unexpected(not_carried(config, "the operation"));
  const AttentionSignature& signature = config.attention();
  const Key128 key = key_of(config);
  CpuAttentionParameters parameters;
  parameters.name = native_name(config);
  parameters.key = {key.hi, key.lo};
  for (const CpuLevel level :
       {CpuLevel::x86_64_v3, CpuLevel::x86_64_v4, CpuLevel::x86_64_v4_bf16, CpuLevel::x86_64_amx})
    if (to_string(level) == spec.arch.text()) parameters.level = level;
  parameters.pipeline = config.algorithm.pipeline;
  parameters.instruction = config.algorithm.instruction;
  TS_ASSIGN(parameters.element, element_of(config));
  parameters.head_dim_qk = signature.head_dim_qk;
  parameters.head_dim_v = signature.head_dim_v;
  parameters.tile_m = config.algorithm.tile[0];
  parameters.tile_n = config.algorithm.tile[1];
  parameters.mask = signature.mask != MaskKind::none;
  parameters.bias = signature.bias == BiasKind::elementwise;
  parameters.alibi = signature.bias == BiasKind::alibi;
  parameters.soft_cap = signature.logits_soft_cap;
  parameters.sink = signature.sink;
  parameters.dropout = signature.dropout;
  parameters.lse = signature.lse;
  parameters.group_mode = signature.mode == SequenceMode::group;
  return cpu_attention_source(parameters);
}

}  // namespace tilesmith
