// A call of backward weight by halo tiles: a launch that leaves parts of the sums, and one that adds them up
// (kernels/cuda/conv/halo/weight.cuh).
#pragma once

#include <memory>

#include "choose/conv/cuda_halo_work.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "kernels/cuda/conv/halo/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaHaloPlan final : public ConvPlan {
 public:
  /// Errors: unsupported for sizes beyond a launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, CudaSplitMemory* split_memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaHaloPlan(const ConvProblem& problem, PlanInfo info, CudaSteps steps, CudaSplitMemory* split_memory)
      : ConvPlan(problem, std::move(info)), steps_(std::move(steps)), split_memory_(split_memory) {}

  [[nodiscard]] Status encode_maps(const ConvArguments& arguments, TsCudaConvHaloMaps& maps) const;

  CudaSteps steps_;
  CudaSplitMemory* split_memory_;
  CudaSplitMemory::Size split_size_;
  CudaHaloTile tile_;
  CudaHaloWork work_;
};

}  // namespace tilesmith
