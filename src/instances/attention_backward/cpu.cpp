#include "instances/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilesmith {
namespace {

using BackwardSubject = CpuAttentionBackwardSubject;

constexpr DataType kBackwardTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16};
constexpr std::uint16_t kBackwardTile[] = {16, 64};

AttentionSignature generic_backward_signature(DataType type) {
  AttentionSignature s;
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.data_type = type;
  s.head_dim_qk = s.head_dim_v = 0;
  s.mask = MaskKind::generic;
  s.bias = BiasKind::elementwise;
  s.dropout = s.soft_cap = s.sink = s.dbias = s.deterministic = true;
  return s;
}

constexpr Rule<BackwardSubject> kBackwardRules[] = {
    {"pipeline_is_generic", "a kernel of attention backward takes every trait at run time, in fp32 arithmetic",
     [](const BackwardSubject& s) { return s.is_generic() && s.config.algorithm.instruction == Instruction::fma_f32; },
     [](const BackwardSubject& s) {
       return fmt::format("pipeline {}, instruction {}", name_of(s.config.algorithm.pipeline),
                          name_of(s.config.algorithm.instruction));
     }},
    {"traits_are_run_time", "a generic kernel has no head dim, every trait, and one of the types fp32, bf16, fp16",
     [](const BackwardSubject& s) {
       return std::ranges::find(kBackwardTypes, s.signature().data_type) != std::end(kBackwardTypes) &&
              s.signature() == generic_backward_signature(s.signature().data_type);
     },
     [](const BackwardSubject& s) {
       return fmt::format("type {}, head_dim_qk {}, head_dim_v {}", name_of(s.signature().data_type),
                          s.signature().head_dim_qk, s.signature().head_dim_v);
     }},
    {"fields_belong_to_pipeline", "the template reads two figures of the tile, which are the same in every kernel",
     [](const BackwardSubject& s) {
       return s.config.origin == Origin::own &&
              s.config.algorithm == Algorithm{.pipeline = Pipeline::generic,
                                              .instruction = Instruction::fma_f32,
                                              .tile = {kBackwardTile[0], kBackwardTile[1]}};
     },
     [](const BackwardSubject& s) {
       return fmt::format("origin {}, tile_m {}, tile_n {}", name_of(s.config.origin), s.tile_m(), s.tile_n());
     }},
};

}  // namespace

bool is_attention_backward(const KernelConfig& config) {
  if (config.operation() != Operation::attention) return false;
  const AttentionFamily family = config.attention().family;
  return family == AttentionFamily::bwd_dot_do_o || family == AttentionFamily::bwd_dq_dk_dv ||
         family == AttentionFamily::bwd_convert_dq;
}

std::span<const Rule<CpuAttentionBackwardSubject>> cpu_attention_backward_rules() {
  return kBackwardRules;
}

KernelConfig generic_cpu_attention_backward(const CpuSpec& spec, DataType type) {
  return {.arch = spec.arch,
          .signature = generic_backward_signature(type),
          .algorithm = {.pipeline = Pipeline::generic,
                        .instruction = Instruction::fma_f32,
                        .tile = {kBackwardTile[0], kBackwardTile[1]}}};
}

std::span<const DataType> generic_cpu_attention_backward_types() {
  return kBackwardTypes;
}

void enumerate_cpu_attention_backward(const CpuSpec& spec, ConfigSink sink) {
  for (const DataType type : kBackwardTypes)
    if (!sink(generic_cpu_attention_backward(spec, type))) return;
}

}  // namespace tilesmith
