#include "codegen/generate.hpp"

#include <fmt/format.h>

#include "codegen/attention/cpu.hpp"
#include "codegen/attention/cuda.hpp"
#include "codegen/attention/hip.hpp"
#include "codegen/attention_backward/cpu.hpp"
#include "codegen/attention_backward/cuda.hpp"
#include "codegen/conv/cpu.hpp"
#include "codegen/conv/cuda.hpp"
#include "codegen/gemm/cpu.hpp"
#include "codegen/gemm/cuda.hpp"
#include "codegen/gemm/hip.hpp"
#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/attention/hip.hpp"
#include "instances/attention_backward/cpu.hpp"
#include "instances/attention_backward/cuda.hpp"
#include "instances/attention_backward/families.hpp"
#include "instances/conv/cpu.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "instances/gemm/hip.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

Error not_carried(const KernelConfig& config, std::string_view what) {
  return {ErrorCode::unsupported, fmt::format("no CPU template carries {} of {}", what, native_name(config)),
          "tilesmith explain NAME says which rule refuses it"};
}

Result<ElementType> element_of(const KernelConfig& config, DataType type) {
  switch (type) {
    case DataType::fp32:
      return ElementType::fp32;
    case DataType::bf16:
      return ElementType::bf16;
    case DataType::fp16:
      return ElementType::fp16;
    case DataType::int8:
      return ElementType::int8;
    case DataType::int32:
      return ElementType::int32;
    case DataType::fp8:
      return ElementType::fp8e4m3;
    case DataType::bf8:
      return ElementType::fp8e5m2;
    default:
      return std::unexpected(not_carried(config, "the data type"));
  }
}

/// The fragments an instance needs, from the level's facts and not from its name: a level added in specs/ finds its
/// own.
CpuLevel template_level(Instruction instruction, const CpuSpec& spec) {
  if (spec.vector_bits < 512) return CpuLevel::x86_64_v3;
  if (instruction == Instruction::amx_bf16 || instruction == Instruction::amx_int8) return CpuLevel::x86_64_amx;
  return instruction == Instruction::dpbf16 || instruction == Instruction::dot_int8 ? CpuLevel::x86_64_v4_bf16
                                                                                    : CpuLevel::x86_64_v4;
}

GemmActivation activation_of(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::relu:
      return GemmActivation::relu;
    case EpilogueOp::gelu:
      return GemmActivation::gelu;
    case EpilogueOp::gelu_tanh:
      return GemmActivation::gelu_tanh;
    case EpilogueOp::silu:
      return GemmActivation::silu;
    case EpilogueOp::sigmoid:
      return GemmActivation::sigmoid;
    case EpilogueOp::tanh:
      return GemmActivation::tanh;
    default:
      return GemmActivation::none;
  }
}

/// The rules of the instances are the only judges of what a template carries; the error names the one that refuses.
template <class Subject>
Error refused_by(const Rule<Subject>& rule, const Subject& subject) {
  return {ErrorCode::unsupported,
          fmt::format("{}: rule {}: {}", native_name(subject.config), rule.name, rule.figures(subject)),
          std::string(rule.about)};
}
template <class Rules, class Subject>
Status accept(const Rules& rules, const Subject& subject) {
  if (const auto* rule = first_refusal(rules, subject)) return std::unexpected(refused_by(*rule, subject));
  return {};
}

Result<Source> gemm_source(const KernelConfig& config, const CpuSpec& spec) {
  const CpuGemmSubject subject{config, spec};
  TS_TRY(accept(cpu_gemm_rules(), subject));
  const GemmSignature& signature = subject.signature();
  TS_ASSIGN(const CpuGemmEpilogue terms, cpu_gemm_kernel_terms(signature.epilogue_ops));
  const Key128 key = key_of(config);
  CpuGemmParameters p;
  p.name = native_name(config);
  p.key = {key.hi, key.lo};
  p.level = template_level(config.algorithm.instruction, spec);
  p.form = subject.is_generic()                            ? CpuGemmForm::generic
           : config.algorithm.pipeline == Pipeline::skinny ? CpuGemmForm::skinny
                                                           : CpuGemmForm::blocked;
  p.instruction = config.algorithm.instruction;
  TS_ASSIGN(p.element, element_of(config, signature.a));
  if (signature.b == DataType::int4 || (signature.b == DataType::int8 && signature.a != DataType::int8)) {
    p.scales = signature.b == DataType::int4 ? CpuGemmScales::int4_weights : CpuGemmScales::int8_weights;
    TS_ASSIGN(p.scale_type, element_of(config, signature.scale));
    p.zero_points = signature.zero_points;
  } else {
    if (signature.qscale == QuantScale::blockscale) p.scales = CpuGemmScales::blocks;
    TS_ASSIGN(p.element_b, element_of(config, signature.b));
    if (p.element_b == p.element) p.element_b.reset();
  }
  TS_ASSIGN(p.output, element_of(config, signature.c));
  TS_ASSIGN(p.aux, element_of(config, signature.aux));
  TS_ASSIGN(p.bias_type, element_of(config, signature.bias));
  p.order_a = signature.layout_a;
  p.order_b = signature.layout_b;
  p.tile_m = subject.tile_m();
  p.tile_n = subject.tile_n();
  p.tile_k = subject.tile_k();
  p.split_k = config.algorithm.split_k;
  p.packed_b = config.algorithm.packed_b;
  p.mm_plus_mm = signature.mm_plus_mm;
  p.bias = terms.bias < 0 ? GemmBias::none : terms.bias_along_m ? GemmBias::along_m : GemmBias::along_n;
  p.activation = activation_of(terms.activation);
  p.gated = terms.gated;
  p.row_scale = terms.row_scale >= 0;
  p.column_scale = terms.column_scale >= 0;
  p.extras = terms.extras;
  p.extras_multiply = terms.extras_multiply;
  p.clamp = terms.clamp >= 0;
  p.amax = terms.amax;
  return cpu_gemm_source(p);
}

Result<Source> attention_source(const KernelConfig& config, const CpuSpec& spec) {
  TS_TRY(accept(cpu_attention_rules(), CpuAttentionSubject{config, spec}));
  const AttentionSignature& signature = config.attention();
  const Key128 key = key_of(config);
  CpuAttentionParameters parameters;
  parameters.name = native_name(config);
  parameters.key = {key.hi, key.lo};
  parameters.level = template_level(config.algorithm.instruction, spec);
  parameters.pipeline = config.algorithm.pipeline;
  parameters.instruction = config.algorithm.instruction;
  TS_ASSIGN(parameters.element, element_of(config, input_type(signature.data_type)));
  TS_ASSIGN(parameters.output, element_of(config, output_type(signature.data_type)));
  parameters.cache = signature.cache == KvElements::fp8    ? ElementType::fp8e4m3
                     : signature.cache == KvElements::int8 ? ElementType::int8
                                                           : parameters.element;
  parameters.head_dim_qk = signature.head_dim_qk;
  parameters.head_dim_v = signature.head_dim_v;
  parameters.tile_m = config.algorithm.tile[0];
  parameters.tile_n = config.algorithm.tile[1];
  parameters.mask = signature.mask != MaskKind::none;
  parameters.bias = signature.bias == BiasKind::elementwise;
  parameters.alibi = signature.bias == BiasKind::alibi;
  parameters.soft_cap = signature.soft_cap;
  parameters.sink = signature.sink;
  parameters.dropout = signature.dropout;
  parameters.lse = signature.lse;
  parameters.group_mode = signature.mode == SequenceMode::group;
  parameters.paged = signature.paged_kv;
  return cpu_attention_source(parameters);
}

Result<Source> attention_backward_source(const KernelConfig& config, const CpuSpec& spec) {
  TS_TRY(accept(cpu_attention_backward_rules(), CpuAttentionBackwardSubject{config, spec}));
  const Key128 key = key_of(config);
  CpuAttentionBackwardParameters parameters;
  parameters.name = native_name(config);
  parameters.key = {key.hi, key.lo};
  parameters.level = template_level(config.algorithm.instruction, spec);
  const AttentionSignature& signature = config.attention();
  parameters.pipeline = config.algorithm.pipeline;
  parameters.instruction = config.algorithm.instruction;
  TS_ASSIGN(parameters.element, element_of(config, signature.data_type));
  parameters.head_dim_qk = signature.head_dim_qk;
  parameters.head_dim_v = signature.head_dim_v;
  parameters.bias = signature.bias == BiasKind::elementwise;
  parameters.alibi = signature.bias == BiasKind::alibi;
  parameters.soft_cap = signature.soft_cap;
  parameters.dropout = signature.dropout;
  parameters.tile_m = config.algorithm.tile[0];
  parameters.tile_n = config.algorithm.tile[1];
  return cpu_attention_backward_source(parameters);
}

Result<Source> conv_source(const KernelConfig& config, const CpuSpec& spec) {
  const CpuConvSubject subject{config, spec};
  TS_TRY(accept(cpu_conv_rules(), subject));
  const Key128 key = key_of(config);
  CpuConvParameters parameters;
  parameters.name = native_name(config);
  parameters.key = {key.hi, key.lo};
  parameters.level = template_level(config.algorithm.instruction, spec);
  parameters.direction = subject.signature().direction;
  parameters.pipeline = config.algorithm.pipeline;
  parameters.instruction = config.algorithm.instruction;
  TS_ASSIGN(parameters.element, element_of(config, subject.signature().data_type));
  if (parameters.pipeline == Pipeline::blocked) {
    parameters.tile_m = config.algorithm.tile[0];
    parameters.tile_n = config.algorithm.tile[1];
    parameters.tile_k = config.algorithm.tile[2];
  }
  return cpu_conv_source(parameters);
}

}  // namespace

Result<Source> generate(const KernelConfig& config, const CpuSpec& spec) {
  TS_ASSIGN(Source source, config.operation() == Operation::gemm   ? gemm_source(config, spec)
                           : config.operation() == Operation::conv ? conv_source(config, spec)
                           : is_attention_backward(config)         ? attention_backward_source(config, spec)
                                                                   : attention_source(config, spec));
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
  if (config.arch != spec.arch)
    return refuse(fmt::format("an instance of {} asked of {}", config.arch.text(), spec.arch.text()),
                  "the facts of the instance's own architecture");
  if (config.operation() == Operation::gemm) {
    TS_TRY(accept(cuda_gemm_rules(), CudaGemmSubject{config, spec}));
    return cuda_gemm_source(config);
  }
  if (config.operation() == Operation::conv) {
    if (const CudaConvRule* rule = cuda_conv_refusal({config, spec}))
      return std::unexpected(refused_by(*rule, CudaConvSubject{config, spec}));
    return cuda_conv_source(config);
  }
  if (is_attention_backward(config)) {
    TS_TRY(accept(cuda_backward_rules(), CudaBackwardSubject{config, spec}));
    return cuda_attention_backward_source(config);
  }
  TS_TRY(accept(cuda_attention_rules(), CudaAttentionSubject{config, spec}));
  return cuda_attention_source(config);
}

Result<Source> generate(const KernelConfig& config, const HipSpec& spec) {
  const auto refuse = [&](std::string what, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("{}: {}", native_name(config), what), std::move(hint));
  };
  if (config.operation() == Operation::conv)
    return refuse(fmt::format("no template for AMD GPUs carries {}", name_of(config.operation())), "attention or gemm");
  if (config.arch != spec.arch)
    return refuse(fmt::format("an instance of {} asked of {}", config.arch.text(), spec.arch.text()),
                  "the facts of the instance's own architecture");
  if (config.operation() == Operation::attention) {
    TS_TRY(accept(hip_attention_rules(), HipAttentionSubject{config, spec}));
    return hip_attention_source(config, spec);
  }
  TS_TRY(accept(hip_gemm_rules(), HipGemmSubject{config, spec}));
  return hip_gemm_source(config, spec);
}

}  // namespace tilesmith
