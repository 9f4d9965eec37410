// A launch of a CUDA attention kernel: the problem's part of it worked out once, a call's part (addresses, strides,
// numbers) filled in by each run.
#pragma once

#include <memory>

#include "dispatch/attention/cuda_tile_counters.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaAttentionPlan final : public AttentionPlan {
 public:
  /// `counters` is null for kernels with a static schedule. Errors: unsupported for sizes beyond a launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<AttentionPlan>> make(const AttentionProblem& problem, PlanInfo info,
                                                                   const KernelConfig& config, const CudaSpec& spec,
                                                                   CudaSteps steps, CudaTileCounters* counters);

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override;

 private:
  CudaAttentionPlan(const AttentionProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                    CudaTileCounters* counters);

  [[nodiscard]] TsCudaAttentionArgs kernel_arguments(const AttentionArguments& arguments) const;
  template <class Encode>
  [[nodiscard]] Status encode_columns(std::int64_t head_dim, std::int64_t column, TsCudaTensorMap& whole,
                                      TsCudaTensorMap& rest, const Encode& encode) const;
  [[nodiscard]] Result<int> encode_key_maps(const AttentionArguments& arguments, TsCudaTensorMaps& maps) const;
  [[nodiscard]] Status encode_maps(const AttentionArguments& arguments, TsCudaTensorMaps& maps) const;

  CudaSteps steps_;
  CudaTileCounters* counters_;
  CudaAttentionResources facts_;
  std::int64_t pack_gqa_;
  MaskKind mask_;
  int work_items_ = 0;
  int first_tile_ = 0;
  int row_tiles_ = 0;
  int section_heads_ = 1;
  int sections_ = 0;
};

}  // namespace tilesmith
