// From a kernel config to its source text: the one entry to every backend's emitter.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The source of a CPU instance. Errors: unsupported, when no template carries the config.
[[nodiscard]] Result<Source> generate(const KernelConfig& config, const CpuSpec& spec);

/// The source of an NVIDIA instance. Errors: unsupported, with the rule that refuses the config.
[[nodiscard]] Result<Source> generate(const KernelConfig& config, const CudaSpec& spec);

/// The source of an own instance for AMD GPUs. Errors: as for NVIDIA's.
[[nodiscard]] Result<Source> generate(const KernelConfig& config, const HipSpec& spec);

}  // namespace tilesmith
