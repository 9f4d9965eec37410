#include "codegen/generate.hpp"

#include <fmt/format.h>

#include "codegen/cpu_attention.hpp"
#include "codegen/cuda_attention.hpp"
#include "enumerate/cuda_attention.hpp"
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

/// The fragments an instance needs, from the level's facts and not from its name: a level added in specs/ finds its
/// own.
CpuLevel template_level(Instruction instruction, const CpuSpec& spec) {
  if (spec.vector_bits < 512) return CpuLevel::x86_64_v3;
  if (instruction == Instruction::amx_bf16) return CpuLevel::x86_64_amx;
  return instruction == Instruction::dpbf16 ? CpuLevel::x86_64_v4_bf16 : CpuLevel::x86_64_v4;
}

}  // namespace

Result<Source> generate(const KernelConfig& config, const CpuSpec& spec) {
  if (config.operation() != Operation::attention) return std::unexpected(not_carried(config, "the operation"));
  const AttentionSignature& signature = config.attention();
  const Key128 key = key_of(config);
  CpuAttentionParameters parameters;
  parameters.name = native_name(config);
  parameters.key = {key.hi, key.lo};
  parameters.level = template_level(config.algorithm.instruction, spec);
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
  TS_ASSIGN(Source source, cpu_attention_source(parameters));
  // Machine flags are facts of the level: those of its spec take the place of the template's own.
  std::erase_if(source.options, [](const std::string& option) { return option.starts_with("-m"); });
  source.options.insert(source.options.end(), spec.compile_flags.begin(), spec.compile_flags.end());
  source.arch = std::string(spec.arch.text());
  return source;
}

Result<Source> generate(const KernelConfig& config, const CudaSpec& spec) {
  const auto refuse = [&](std::string what, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("{}: {}", native_name(config), what), std::move(hint));
  };
  if (config.operation() != Operation::attention)
    return refuse(fmt::format("no CUDA template carries {}", name_of(config.operation())), "attention");
  if (config.arch != spec.arch)
    return refuse(fmt::format("an instance of {} asked of {}", config.arch.text(), spec.arch.text()),
                  "the facts of the instance's own architecture");
  const CudaAttentionSubject subject{config, spec};
  if (const auto* rule = first_refusal(cuda_attention_rules(), subject))
    return refuse(fmt::format("rule {}: {}", rule->name, rule->figures(subject)), std::string(rule->about));
  return cuda_attention_source(config);
}

}  // namespace tilesmith
