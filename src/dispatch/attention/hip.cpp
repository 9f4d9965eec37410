#include "dispatch/attention/hip.hpp"

#include "choose/attention/hip.hpp"
#include "dispatch/attention/hip_decode_plan.hpp"
#include "dispatch/attention/hip_plan.hpp"
#include "dispatch/plan_info.hpp"

namespace tilesmith {

Result<Ranking> HipAttention::rank(const AttentionProblem& problem) const {
  return tilesmith::rank(spec_, problem);
}

Result<std::vector<Refusal>> HipAttention::refusals(const AttentionProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status HipAttention::check(const Recipe& recipe, const AttentionProblem& problem) const {
  return serves(spec_, recipe, problem);
}

HipSplitMemory& HipAttention::split_memory(const HipDevice& device) {
  const std::lock_guard lock(mutex_);
  if (split_memory_ == nullptr) split_memory_ = std::make_unique<HipSplitMemory>(device);
  return *split_memory_;
}

Result<std::unique_ptr<AttentionPlan>> HipAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  TS_ASSIGN(const HipLibrary* library, hip_library());
  TS_ASSIGN(const HipDevice device, HipDevice::open(*library, device_index_));
  std::vector<HipKernel> kernels;
  for (const Step& step : chosen.recipe.steps) {
    TS_ASSIGN(HipKernel kernel, registry_.find(device, step.config, build));
    kernels.push_back(std::move(kernel));
  }
  PlanInfo info = plan_info({DeviceKind::hip, device_index_}, chosen, std::move(reason));
  const KernelConfig& config = chosen.recipe.main();
  if (config.algorithm.pipeline == Pipeline::decode)
    return HipDecodePlan::make(problem, std::move(info), config, spec_, std::move(kernels), split_memory(device));
  return HipAttentionPlan::make(problem, std::move(info), config, spec_, kernels.front());
}

}  // namespace tilesmith
