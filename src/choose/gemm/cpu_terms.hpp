// What a CPU GEMM kernel does, counted: the terms of the model that predicts its seconds (src/spec/cpu/gemm_model.hpp).
//
// The counts follow the templates (kernels/cpu/gemm): how they cut a problem into tasks, blocks of k and micro-tiles,
// what they read as it lies and what they pack.
#pragma once

#include <cstdint>

#include "spec/cpu/spec.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds at a cycle of the level's clock for each of what is counted, of a kernel that is not generic. What threads
/// share is divided among them. Of groups, for typical_call.
[[nodiscard]] CpuGemmTerms cpu_gemm_terms(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                          int threads);

/// Parts that a kernel which splits k cuts it into, so that every thread has work: 1 for other kernels.
[[nodiscard]] std::int64_t splits_for(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                      int threads);

}  // namespace tilesmith
