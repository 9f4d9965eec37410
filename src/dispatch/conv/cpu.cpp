#include "dispatch/conv/cpu.hpp"

#include <fmt/format.h>

#include "choose/conv/cpu.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

class CpuConvPlan final : public ConvPlan {
 public:
  CpuConvPlan(const ConvProblem& problem, PlanInfo info, CpuSteps steps)
      : ConvPlan(problem, std::move(info)), steps_(std::move(steps)) {}

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    if (is_empty(problem())) return {};
    const TsConvArgs args =
        cpu_arguments(problem(), arguments, steps_.team().threads(), cpu_workspace(options, workspace_bytes()));
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  CpuSteps steps_;
};

}  // namespace

Result<Ranking> CpuConv::rank(const ConvProblem& problem) const {
  return tilesmith::rank(facts_, problem);
}

std::vector<Candidate> CpuConv::fallbacks(const ConvProblem& problem) const {
  return tilesmith::fallbacks(facts_, problem, registry_.essential());
}

Status CpuConv::check(const Recipe& recipe, const ConvProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(facts_, recipe.main(), problem);
}

Result<std::unique_ptr<ConvPlan>> CpuConv::plan(const ConvProblem& problem, const Candidate& chosen, std::string reason,
                                                BuildPolicy build) {
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, team_,
                                           [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const ConvArguments dense = dense_arguments(problem, ConvLayout::channels_last);
  const TsConvArgs args = cpu_arguments(problem, dense, team_.threads(), nullptr);
  const TsCpuKernel& table = steps.table();
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add(problem.direction == ConvDirection::backward_weight ? "partials of w" : "packed w",
             static_cast<std::size_t>(table.workspace_bytes(&args)));
  layout.tell(info);
  team_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuConvPlan>(problem, std::move(info), std::move(steps));
}

}  // namespace tilesmith
