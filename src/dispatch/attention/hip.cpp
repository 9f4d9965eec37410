#include "dispatch/attention/hip.hpp"

#include "choose/attention/hip.hpp"
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
  TS_TRY(check_one_step(recipe));
  return serves(spec_, recipe.main(), problem);
}

Result<std::unique_ptr<AttentionPlan>> HipAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const HipLibrary* library, hip_library());
  TS_ASSIGN(const HipDevice device, HipDevice::open(*library, device_index_));
  TS_ASSIGN(const HipKernel kernel, registry_.find(device, config, build));
  PlanInfo info = plan_info({DeviceKind::hip, device_index_}, chosen, std::move(reason));
  return HipAttentionPlan::make(problem, std::move(info), config, spec_, kernel);
}

}  // namespace tilesmith
