// How long a CPU GEMM kernel should take: what it counts (cpu_terms.hpp), each at the cycles that were fitted for the
// level's kernels of that pipeline and type. Of the generic kernels, which come last, an estimate.
#pragma once

#include "spec/cpu/spec.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds a kernel of a level should take on so many threads. Of groups, for typical_call.
[[nodiscard]] double predicted_seconds(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                       int threads);

/// The threads that a call gets, of `most`: by what it takes in warm caches, where sharing gains least.
[[nodiscard]] int threads_worth(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec, int most);

/// What a kernel is called with at a time: the problem itself, or a group with its share of the rows.
[[nodiscard]] GemmProblem typical_call(const GemmProblem& problem);

}  // namespace tilesmith
