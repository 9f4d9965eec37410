#include "dispatch/attention/cpu.hpp"

#include <fmt/format.h>

#include "choose/attention/cpu.hpp"
#include "choose/attention/cpu_model.hpp"
#include "choose/attention/cpu_terms.hpp"
#include "choose/cpu_threads.hpp"
#include "dispatch/attention/append_plan.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_tasks.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/serving/cpu_appender.hpp"
#include "dispatch/workspace.hpp"
#include "problem/attention/append.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

class CpuAttentionPlan final : public AttentionPlan {
 public:
  CpuAttentionPlan(const AttentionProblem& problem, PlanInfo info, CpuSteps steps, std::int64_t splits)
      : AttentionPlan(problem, std::move(info)), steps_(std::move(steps)), splits_(splits) {}

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    void* const workspace = cpu_workspace(options, workspace_bytes());
    if (problem().append) return append_and_run(arguments, workspace);
    const TsAttentionArgs args = cpu_arguments(problem(), arguments, splits_, workspace);
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  [[nodiscard]] Status append_and_run(const AttentionArguments& arguments, void* workspace) const {
    const CpuAppender appender(append_of(problem(), arguments, DeviceKind::cpu));
    const TsAttentionArgs args = cpu_arguments(problem(), attended(problem(), arguments), splits_, workspace);
    run_tasks_before(
        steps_.team(), appender.tasks(), [&](long long task) { appender.run(task); }, steps_.table(), &args);
    return {};
  }

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
  if (problem.append) tell_append(info);
  WorkspaceLayout layout;
  layout.add("packed values and partials", static_cast<std::size_t>(table.workspace_bytes(&args)));
  layout.tell(info);
  team_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuAttentionPlan>(problem, std::move(info), std::move(steps), splits);
}

}  // namespace tilesmith
