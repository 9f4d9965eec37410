// A GEMM problem in the words of the CPU's kernels.
#pragma once

#include <cstdint>

#include "instances/gemm/cpu_epilogue.hpp"
#include "kernels/cpu/gemm/generic_abi.h"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// What generic kernels are told of a problem.
[[nodiscard]] TsGemmForm generic_form(const GemmProblem& problem);

/// The structure a CPU kernel reads, while `form` and `arguments` are there. `terms` are those of the problem's
/// epilogue, none for a generic kernel; `workspace` is shared by all tasks.
[[nodiscard]] TsGenericGemmArgs cpu_arguments(const GemmProblem& problem, const CpuGemmEpilogue& terms,
                                              const TsGemmForm& form, const GemmArguments& arguments,
                                              std::int64_t splits, int threads, void* workspace);

}  // namespace tilesmith
