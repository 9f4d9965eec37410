#include "dispatch/gemm/hip.hpp"

#include "choose/gemm/hip.hpp"
#include "dispatch/gemm/hip_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/plan_info.hpp"

namespace tilesmith {

Result<Ranking> HipGemm::rank(const GemmProblem& problem) const {
  return tilesmith::rank(spec_, problem);
}

Result<std::vector<Refusal>> HipGemm::refusals(const GemmProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status HipGemm::check(const Recipe& recipe, const GemmProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(spec_, recipe.main(), problem);
}

Result<std::unique_ptr<GemmPlan>> HipGemm::plan(const GemmProblem& problem, const Candidate& chosen, std::string reason,
                                                BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const HipLibrary* library, hip_library());
  TS_ASSIGN(const HipDevice device, HipDevice::open(*library, device_index_));
  TS_ASSIGN(const HipKernel kernel, registry_.find(device, config, build));
  PlanInfo info = plan_info({DeviceKind::hip, device_index_}, chosen, std::move(reason));
  return plan_with_row_d(problem, [&](const GemmProblem& row_d) {
    return HipGemmPlan::make(row_d, std::move(info), config, spec_, kernel);
  });
}

}  // namespace tilesmith
