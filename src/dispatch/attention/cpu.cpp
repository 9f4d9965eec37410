#include "dispatch/attention/cpu.hpp"

#include <fmt/format.h>

#include "choose/attention/cpu.hpp"
#include "choose/attention/cpu_model.hpp"
#include "choose/attention/cpu_terms.hpp"
#include "choose/cpu_threads.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

class CpuAttentionPlan final : public AttentionPlan {
 public:
  CpuAttentionPlan(const AttentionProblem& problem, PlanInfo info, CpuSteps steps, std::int64_t splits)
      : AttentionPlan(problem, std::move(info)), steps_(std::move(steps)), splits_(splits) {}

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    const TsAttentionArgs args =
        cpu_arguments(problem(), arguments, splits_, cpu_workspace(options, workspace_bytes()));
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  CpuSteps steps_;
  std::int64_t splits_;
};

}  // namespace

Result<Ranking> CpuAttention::rank(const AttentionProblem& problem) const {
  return tilesmith::rank(facts_, problem);
}

std::vector<Candidate> CpuAttention::fallbacks(const AttentionProblem& problem) const {
  return tilesmith::fallbacks(facts_, problem, registry_.essential());
}

Result<std::vector<Refusal>> CpuAttention::refusals(const AttentionProblem& problem) const {
  return tilesmith::refusals(facts_, problem);
}

Status CpuAttention::check(const Recipe& recipe, const AttentionProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(facts_, recipe.main(), problem);
}

Result<std::unique_ptr<AttentionPlan>> CpuAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  const ThreadTeam team = team_worth(problem, config, facts_, team_);
  TS_ASSIGN(CpuSteps steps,
            CpuSteps::load(chosen.recipe, team, [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const std::int64_t splits = splits_for(problem, config, team.threads());
  const TsAttentionArgs args = cpu_arguments(problem, dense_arguments(problem, AttentionLayout::bhsd), splits, nullptr);
  const TsCpuKernel& table = steps.table();
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add("packed values and partials", static_cast<std::size_t>(table.workspace_bytes(&args)));
  layout.tell(info);
  team_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuAttentionPlan>(problem, std::move(info), std::move(steps), splits);
}

}  // namespace tilesmith
