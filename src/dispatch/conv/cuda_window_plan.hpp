// A launch of a Hopper convolution kernel: GEMM's arguments and maps, but for the im2col map of the image and the map
// of the filters (kernels/cuda/conv/hopper/abi.h).
#pragma once

#include <memory>

#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "kernels/cuda/conv/hopper/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaWindowPlan final : public ConvPlan {
 public:
  /// `split_memory` is null where no sum is cut. Errors: unsupported for sizes beyond a launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, CudaSplitMemory* split_memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaWindowPlan(const ConvProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                 CudaSplitMemory* split_memory);

  [[nodiscard]] Status encode_image(const ConvArguments& arguments, TsCudaTensorMap& map) const;
  [[nodiscard]] Status encode_filters(const ConvArguments& arguments, TsCudaTensorMap& map) const;

  CudaSteps steps_;
  Algorithm algorithm_;
  CudaGemmResources facts_;
  CudaSplitMemory* split_memory_;
  CudaSplitMemory::Size split_size_;
  GemmProblem product_;  ///< of places by channels of the result
  TsCudaConvWindow window_{};
  int spatial_dims_;
  int splits_ = 1;
};

}  // namespace tilesmith
