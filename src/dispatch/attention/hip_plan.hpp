// A launch of an attention kernel on an AMD GPU: the grid worked out once, a call's addresses, strides and numbers
// filled in by each run.
#pragma once

#include <memory>

#include "instances/attention/hip_resources.hpp"
#include "kernels/hip/attention/abi.h"
#include "runtime/hip/kernel.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class HipAttentionPlan final : public AttentionPlan {
 public:
  /// The config is of the problem's signature. Error: unsupported for sizes beyond a launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<AttentionPlan>> make(const AttentionProblem& problem, PlanInfo info,
                                                                   const KernelConfig& config, const HipSpec& spec,
                                                                   const HipKernel& kernel);

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override;

 private:
  HipAttentionPlan(const AttentionProblem& problem, PlanInfo info, const HipAttentionResources& facts,
                   const HipKernel& kernel)
      : AttentionPlan(problem, std::move(info)), facts_(facts), kernel_(kernel) {}

  HipAttentionResources facts_;
  HipKernel kernel_;
  int row_tiles_ = 0;
  unsigned blocks_ = 0;
};

}  // namespace tilesmith
