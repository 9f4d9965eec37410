// The cost model of CPU attention-backward kernels.
#pragma once

#include "spec/cpu/spec.hpp"
#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The seconds that a kernel of the level, flash or generic, is expected to take on `threads` threads.
[[nodiscard]] double predicted_seconds(const AttentionBackwardProblem& problem, const KernelConfig& config,
                                       const CpuSpec& spec, int threads);

}  // namespace tilesmith
