// A GEMM problem in the words of the CPU's kernels.
#pragma once

#include <cstdint>

#include "instances/gemm/cpu_epilogue.hpp"
#include "kernels/cpu/gemm/abi.h"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// The structure a CPU kernel reads. `terms` are those of the problem's epilogue; `workspace` is shared by all tasks.
[[nodiscard]] TsGemmArgs cpu_arguments(const GemmProblem& problem, const CpuGemmEpilogue& terms,
                                       const GemmArguments& arguments, std::int64_t splits, int threads,
                                       void* workspace);

}  // namespace tilesmith
