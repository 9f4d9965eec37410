#include "codegen/generate.hpp"

#include <fmt/format.h>

#include "codegen/cpu_attention.hpp"
#include "kernel/native_name.hpp"

namespace tilesmith {
namespace {

Error not_carried(const KernelConfig& config, std::string_view what) {
  return {ErrorCode::unsupported, fmt::format("no CPU template carries {} of {}", what, native_name(config)), "tilesmith explain NAME says which rule refuses it"};
}

Result<CpuElement> element_of(const KernelConfig& config) {
  switch (config.attention().data_type) {
    case DataType::fp32: return CpuElement::fp32;
    case DataType::bf16: return CpuElement::bf16;
    case DataType::fp16: return CpuElement::fp16;
    default: return std::unexpected(not_carried(config, "the data type"));
  }
}

Result<CpuInstruction> instruction_of(const KernelConfig& config) {
  switch (config.algorithm.instruction) {
    case Instruction::fma_f32: return CpuInstruction::fma_f32;
    case Instruction::dpbf16: return CpuInstruction::dpbf16;
    case Instruction::amx_bf16: return CpuInstruction::amx_bf16;
    default: return std::unexpected(not_carried(config, "the instruction"));
  }
}

Result<CpuAttentionPipeline> pipeline_of(const KernelConfig& config) {
  switch (config.algorithm.pipeline) {
    case Pipeline::flash: return CpuAttentionPipeline::forward;
    case Pipeline::decode: return CpuAttentionPipeline::decode;
    default: return std::unexpected(not_carried(config, "the pipeline"));
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
  parameters.vector_bits = spec.vector_bits;
  TS_ASSIGN(parameters.pipeline, pipeline_of(config));
  TS_ASSIGN(parameters.instruction, instruction_of(config));
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
  TS_ASSIGN(CpuSource source, cpu_attention_source(parameters));

  Source out;
  out.name = parameters.name;
  out.text = std::move(source.text);
  out.entry_symbol = std::move(source.entry);
  out.options = std::move(source.options);
  out.options.insert(out.options.end(), spec.compile_flags.begin(), spec.compile_flags.end());
  out.arch = std::string(spec.arch.text());
  return out;
}

}  // namespace tilesmith
