// How long a CPU GEMM instance should take. The model counts clock cycles and turns them into seconds at the level's
// nominal clock. Its figures are measured on Zen 4 (docs/performance.md).
//
//   products   what the registers compute, whole micro-tiles and all, at the instruction's rate
//   words      elements of B to the words that instructions multiply: packed once by a blocked kernel, on the way by a
//              skinny one
//   packing    A, once for every column of tasks
//   sums       loaded and stored once for every further block of k
//   partials   of a split k: stored, loaded and added up
//   memory     the matrices pass once; packing waits for it, so it comes on top
#pragma once

#include <cstdint>

#include "spec/cpu/spec.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds a kernel of a level should take on so many threads. Of groups, for typical_call.
[[nodiscard]] double predicted_seconds(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                       int threads);

/// Parts that a kernel which splits k cuts it into, so that every thread has work: 1 for other kernels.
[[nodiscard]] std::int64_t splits_for(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                      int threads);

/// What a kernel is called with at a time: the problem itself, or a group with its share of the rows.
[[nodiscard]] GemmProblem typical_call(const GemmProblem& problem);

}  // namespace tilesmith
