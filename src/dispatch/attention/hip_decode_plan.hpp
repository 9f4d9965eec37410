// Launches of decode on an AMD GPU: blocks of pieces of keys, and behind them, where an item may have several pieces,
// the join of what they left.
#pragma once

#include <memory>
#include <vector>

#include "choose/attention/hip_decode.hpp"
#include "dispatch/hip_split_memory.hpp"
#include "instances/attention/hip_resources.hpp"
#include "runtime/hip/kernel.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class HipDecodePlan final : public AttentionPlan {
 public:
  /// The config is of the problem's signature; `kernels` are the recipe's two. Error: unsupported for sizes beyond a
  /// launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<AttentionPlan>> make(const AttentionProblem& problem, PlanInfo info,
                                                                   const KernelConfig& config, const HipSpec& spec,
                                                                   std::vector<HipKernel> kernels,
                                                                   HipSplitMemory& memory);

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override;

 private:
  HipDecodePlan(const AttentionProblem& problem, PlanInfo info, const HipAttentionResources& facts,
                std::vector<HipKernel> kernels, HipSplitMemory& memory)
      : AttentionPlan(problem, std::move(info)), facts_(facts), kernels_(std::move(kernels)), memory_(memory) {}

  HipAttentionResources facts_;
  std::vector<HipKernel> kernels_;
  HipSplitMemory& memory_;
  HipDecodeWork work_;
  std::size_t partial_bytes_ = 0;
  unsigned join_threads_ = 0;
};

}  // namespace tilesmith
