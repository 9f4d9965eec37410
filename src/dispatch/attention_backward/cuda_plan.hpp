// The launches of attention backward: the rows' statistics, the products, the rounding of dq, and where it is summed
// dbias, one behind the other in one stream. What is not of a call is worked out once.
#pragma once

#include <memory>

#include "choose/attention_backward/cuda_walk_parts.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/attention_backward/cuda_resources.hpp"
#include "kernels/cuda/attention/backward/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaBackwardPlan final : public AttentionBackwardPlan {
 public:
  /// Errors: unsupported for sizes beyond a launch's limits,
  /// out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<AttentionBackwardPlan>> make(const AttentionBackwardProblem& problem,
                                                                           PlanInfo info, const Recipe& recipe,
                                                                           const CudaSpec& spec, CudaSteps steps,
                                                                           CudaSplitMemory& memory);

  [[nodiscard]] Status run(const AttentionBackwardArguments& arguments, const RunOptions& options) const override;

 private:
  CudaBackwardPlan(const AttentionBackwardProblem& problem, PlanInfo info, const KernelConfig& products,
                   CudaSteps steps, CudaSplitMemory& memory);

  [[nodiscard]] Status check(const AttentionBackwardArguments& arguments) const;
  [[nodiscard]] Status zero_all(const AttentionBackwardArguments& arguments, const RunOptions& options) const;
  [[nodiscard]] Result<TsCudaAttentionBackwardArgs> kernel_arguments(const AttentionBackwardArguments& arguments,
                                                                     const RunOptions& options) const;
  /// `some` is memory of the device, which stands for a tensor without rows.
  [[nodiscard]] Status encode_maps(const AttentionBackwardArguments& arguments, const void* some,
                                   TsCudaBackwardMaps& maps) const;

  CudaSteps steps_;
  CudaSplitMemory& memory_;
  CudaBackwardResources facts_;
  bool deterministic_;
  int work_items_ = 0;
  int key_blocks_ = 0;  ///< of 128 keys
  int key_items_ = 0;   ///< blocks of keys that have work items of their own
  int section_heads_ = 1;
  CudaWalkParts walk_parts_;
  int sum_columns_ = 0;            ///< of a row of dq in fp32; 0 where the products store dq
  std::int64_t passed_bytes_ = 0;  ///< gradients of scores that pass through the workspace
  int progress_counts_ = 0;
};

}  // namespace tilesmith
