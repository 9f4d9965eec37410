// A launch of a CUDA convolution kernel: the problem's part of it worked out once, a call's part (addresses, strides,
// numbers) filled in by each run. It serves the pipelines whose kernels take nothing but these arguments; others have
// plans of their own, made of the same.
#pragma once

#include <memory>

#include "choose/conv/cuda_launch.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "kernels/cuda/conv/abi.h"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// What every CUDA convolution kernel reads of a problem and a call; `splits`, partials and counters are the plan's.
[[nodiscard]] TsCudaConvArgs cuda_conv_arguments(const ConvProblem& problem, const ConvArguments& arguments);

/// Whether the sizes are those that kernels count in 32 bits. Error: unsupported.
[[nodiscard]] Status check_cuda_conv_sizes(const ConvProblem& problem);

/// Whether a call keeps to what its problem says of its memory. Error: invalid_argument.
[[nodiscard]] Status check_conv_alignment(const ConvProblem& problem, const ConvArguments& arguments);

/// Tells the plan's info of memory for partial sums, and sees to it that it is there. Errors: out_of_memory.
[[nodiscard]] Status reserve_partials(CudaSplitMemory& memory, const CudaSplitMemory::Size& size, PlanInfo& info);

class CudaConvPlan final : public ConvPlan {
 public:
  /// `split_memory` is null where no sum is cut. Errors: unsupported for sizes beyond a launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, CudaSplitMemory* split_memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaConvPlan(const ConvProblem& problem, PlanInfo info, CudaSteps steps, CudaSplitMemory* split_memory)
      : ConvPlan(problem, std::move(info)), steps_(std::move(steps)), split_memory_(split_memory) {}

  CudaSteps steps_;
  CudaSplitMemory* split_memory_;
  CudaSplitMemory::Size split_size_;
  CudaConvLaunch figures_;
};

}  // namespace tilesmith
