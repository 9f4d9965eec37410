// Attention on copies of tensors whose rows begin anywhere (choose/attention/whole_rows.hpp): a launch in front of a
// plan of the copies' problem, and one behind it.
#pragma once

#include <memory>

#include "dispatch/cuda_split_memory.hpp"
#include "runtime/cuda/kernel.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// What plans of a device share.
struct CudaRowCopier {
  CudaKernel kernel;        ///< of cuda_copy_rows_source
  CudaSplitMemory& memory;  ///< of copies alone: the plan of the copies has its own
  const CudaSpec& spec;
};

/// A plan of the problem: `attend`, a plan of with_whole_rows(problem), runs between the copies. Error: out_of_memory.
[[nodiscard]] Result<std::unique_ptr<AttentionPlan>> cuda_whole_rows_plan(const AttentionProblem& problem,
                                                                          std::unique_ptr<AttentionPlan> attend,
                                                                          const CudaRowCopier& copier);
[[nodiscard]] Result<std::unique_ptr<AttentionBackwardPlan>> cuda_whole_rows_plan(
    const AttentionBackwardProblem& problem, std::unique_ptr<AttentionBackwardPlan> attend,
    const CudaRowCopier& copier);

}  // namespace tilesmith
