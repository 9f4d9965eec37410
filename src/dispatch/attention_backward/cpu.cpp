#include "dispatch/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include "choose/attention_backward/cpu.hpp"
#include "choose/attention_backward/cpu_model.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "problem/attention_backward/problem.hpp"

namespace tilesmith {
namespace {

class CpuAttentionBackwardPlan final : public AttentionBackwardPlan {
 public:
  CpuAttentionBackwardPlan(const AttentionBackwardProblem& problem, PlanInfo info, CpuSteps steps)
      : AttentionBackwardPlan(problem, std::move(info)), steps_(std::move(steps)) {}

  [[nodiscard]] Status run(const AttentionBackwardArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    const TsAttentionBackwardArgs args = cpu_arguments(problem(), arguments, cpu_workspace(options, workspace_bytes()));
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  CpuSteps steps_;
};

}  // namespace

Result<Ranking> CpuAttentionBackward::rank(const AttentionBackwardProblem& problem) const {
  return tilesmith::rank(facts_, problem);
}

std::vector<Candidate> CpuAttentionBackward::fallbacks(const AttentionBackwardProblem& problem) const {
  return tilesmith::fallbacks(facts_, problem, registry_.essential());
}

Status CpuAttentionBackward::check(const Recipe& recipe, const AttentionBackwardProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(facts_, recipe.main(), problem);
}

Result<std::unique_ptr<AttentionBackwardPlan>> CpuAttentionBackward::plan(const AttentionBackwardProblem& problem,
                                                                          const Candidate& chosen, std::string reason,
                                                                          BuildPolicy build) {
  const ThreadTeam team = team_worth(problem, chosen.recipe.main(), facts_, team_);
  TS_ASSIGN(CpuSteps steps,
            CpuSteps::load(chosen.recipe, team, [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const TsAttentionBackwardArgs args = cpu_arguments(problem, dense_arguments(problem, AttentionLayout::bhsd), nullptr);
  const TsCpuKernel& table = steps.table();
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add("delta and partials", static_cast<std::size_t>(table.workspace_bytes(&args)));
  layout.tell(info);
  team_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuAttentionBackwardPlan>(problem, std::move(info), std::move(steps));
}

}  // namespace tilesmith
