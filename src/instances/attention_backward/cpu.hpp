// Enumeration of CPU attention-backward instances.
#pragma once

#include <span>

#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CpuAttentionBackwardSubject {
  const KernelConfig& config;
  const CpuSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
  [[nodiscard]] bool is_generic() const { return config.algorithm.pipeline == Pipeline::generic; }
};

/// Whether a kernel is of attention backward.
[[nodiscard]] bool is_attention_backward(const KernelConfig& config);

[[nodiscard]] std::span<const Rule<CpuAttentionBackwardSubject>> cpu_attention_backward_rules();

/// The level's kernel of a data type that takes every trait and head dim at run time: it serves what no other does.
[[nodiscard]] KernelConfig generic_cpu_attention_backward(const CpuSpec& spec, DataType type);

/// The data types that generic kernels exist for.
[[nodiscard]] std::span<const DataType> generic_cpu_attention_backward_types();

/// All instances of one level.
void enumerate_cpu_attention_backward(const CpuSpec& spec, ConfigSink sink);

}  // namespace tilesmith
