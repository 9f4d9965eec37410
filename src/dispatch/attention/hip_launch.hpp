// What launches of attention kernels on AMD GPUs have alike.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "instances/attention/hip_resources.hpp"
#include "spec/hip/spec.hpp"

namespace tilesmith {

/// Error: unsupported, a length that kernels do not count.
[[nodiscard]] Status check_hip_length(const char* name, std::int64_t value);
/// Error: unsupported, a grid beyond a launch's limits.
[[nodiscard]] Status check_hip_blocks(double blocks, int threads);
/// Of a config whose instruction the chip has. Error: internal.
[[nodiscard]] Result<HipAttentionResources> hip_attention_facts(const KernelConfig& config, const HipSpec& spec);

}  // namespace tilesmith
