// A GEMM problem in the words of the CPU's kernels.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "instances/gemm/cpu_epilogue.hpp"
#include "kernels/cpu/gemm/abi.h"
#include "spec/cpu/spec.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The signature of the CPU kernels that compute the problem: its epilogue in normal form; types of what it does not
/// read are those kernels are made with. Errors: unsupported, when the epilogue does not fit.
[[nodiscard]] Result<GemmSignature> cpu_signature_of(const GemmProblem& problem);

/// What a kernel is called with at a time: the problem itself, or a group with its share of the rows.
[[nodiscard]] GemmProblem typical_call(const GemmProblem& problem);

/// Elements of k that skinny kernels take: they count those of a task in 32 bits.
inline constexpr std::int64_t kDeepestSkinny = std::int64_t{1} << 30;

/// Whether a kernel of this config computes the problem.
[[nodiscard]] bool serves(const KernelConfig& config, const GemmProblem& problem);

/// The structure a CPU kernel reads. `terms` are those of the problem's epilogue; `workspace` is shared by all tasks.
[[nodiscard]] TsGemmArgs cpu_arguments(const GemmProblem& problem, const CpuGemmEpilogue& terms,
                                       const GemmArguments& arguments, std::int64_t splits, int threads,
                                       void* workspace);

/// Seconds a kernel is expected to take: the padded work at the instruction's rate, packing and memory for the bytes,
/// spread over the threads.
[[nodiscard]] double expected_seconds(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                      int threads);

/// Pieces that a kernel which splits k cuts it into, so that every thread has work: 1 for other kernels.
[[nodiscard]] std::int64_t splits_for(const GemmProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                      int threads);

}  // namespace tilesmith
