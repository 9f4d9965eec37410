// A call of forward or backward data by halo tiles (kernels/cuda/conv/halo/data.cuh).
#pragma once

#include <memory>

#include "choose/conv/cuda_halo_work.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "kernels/cuda/conv/halo/data_abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaHaloDataPlan final : public ConvPlan {
 public:
  /// Errors: unsupported for sizes beyond a launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, CudaSplitMemory* split_memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaHaloDataPlan(const ConvProblem& problem, PlanInfo info, CudaSteps steps)
      : ConvPlan(problem, std::move(info)), steps_(std::move(steps)) {}

  [[nodiscard]] Status encode_maps(const ConvArguments& arguments, TsCudaConvHaloDataMaps& maps) const;

  CudaSteps steps_;
  CudaHaloTile tile_;
  CudaHaloWork work_;
};

}  // namespace tilesmith
