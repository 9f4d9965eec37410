// Enumeration of CPU convolution instances.
#pragma once

#include <span>

#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cpu/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CpuConvSubject {
  const KernelConfig& config;
  const CpuSpec& spec;

  [[nodiscard]] const ConvSignature& signature() const { return std::get<ConvSignature>(config.signature); }
  /// What the level's instruction offers products; null when the level does not have it.
  [[nodiscard]] const CpuGemmInstruction* facts() const;
};

[[nodiscard]] std::span<const Rule<CpuConvSubject>> cpu_conv_rules();

/// All instances of one level, and those of one direction and data type.
void enumerate_cpu_conv(const CpuSpec& spec, ConfigSink sink);
void enumerate_cpu_conv(const CpuSpec& spec, ConvDirection direction, DataType type, ConfigSink sink);

}  // namespace tilesmith
