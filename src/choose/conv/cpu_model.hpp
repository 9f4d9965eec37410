// How long a CPU convolution kernel should take: what it counts (cpu_terms.hpp), each at the cycles that were fitted
// for the level's kernels of that pipeline, direction and type.
#pragma once

#include "spec/cpu/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds a kernel of a level should take on so many threads.
[[nodiscard]] double predicted_seconds(const ConvProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                       int threads);

}  // namespace tilesmith
