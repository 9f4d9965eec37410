// A launch of the decode template: keys shared out over blocks of threads, partial results joined by the last of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "choose/attention/cuda_decode.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "kernels/cuda/attention/decode/abi.h"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaDecodePlan final : public AttentionPlan {
 public:
  /// Errors: unsupported for sizes beyond a launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<AttentionPlan>> make(const AttentionProblem& problem, PlanInfo info,
                                                                   const KernelConfig& config, const CudaSpec& spec,
                                                                   CudaSteps steps, CudaSplitMemory& memory);

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override;

  /// run() of a call whose new keys the kernel writes, and whose queries it turns (cuda_new_keys.hpp).
  [[nodiscard]] Status append_and_run(const AttentionArguments& arguments, const RunOptions& options) const;

 private:
  [[nodiscard]] Status launch(const AttentionArguments& arguments, const TsCudaNewKeys& append,
                              const RunOptions& options) const;
  CudaDecodePlan(const AttentionProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                 CudaSplitMemory& memory);

  [[nodiscard]] Status look_for_cut_items(const std::string& symbol, const CudaSpec& spec);
  [[nodiscard]] int encode_maps(const AttentionArguments& arguments, TsCudaKeyMaps& maps) const;
  [[nodiscard]] Result<CudaSplitMemory::Place> place(const RunOptions& options) const;

  CudaSteps steps_;
  CudaSplitMemory& memory_;
  CudaAttentionResources facts_;
  CudaDecodeWork work_;
  CudaSplitMemory::Size size_;  ///< of the partials and their counters; empty when there is one piece
  int part_rows_ = 0;
  int prefetch_tiles_ = 0, end_tiles_ = 0;  ///< of TsCudaDecodeArgs
  CudaLaunch join_;                         ///< of the launch that joins, where work_.joins_apart
  std::optional<CudaKernel> join_kernel_;   ///< its kernel; absent: the same one
  int join_blocks_ = 0;                     ///< of TsCudaDecodeArgs
};

}  // namespace tilesmith
