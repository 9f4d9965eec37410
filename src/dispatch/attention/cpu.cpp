#include "dispatch/attention/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dispatch/attention/cpu_candidates.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "problem/attention/problem.hpp"
#include "vocabulary/names/native.hpp"

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
  TS_ASSIGN(std::vector<Candidate> candidates, candidates_for(problem, machine_));
  policy_.rank(problem, machine_, pool_.threads(), candidates);
  return Ranking{std::move(candidates), policy_.name()};
}

std::vector<Candidate> CpuAttention::fallbacks(const AttentionProblem& problem) const {
  std::vector<Candidate> linked;
  for (const KernelConfig& config : registry_.essential())
    if (serves(config, problem)) linked.push_back({config, 0});
  policy_.rank(problem, machine_, pool_.threads(), linked);
  std::ranges::stable_sort(linked, {}, [&](const Candidate& c) { return unused_traits(c.recipe.main(), problem); });
  return linked;
}

Status CpuAttention::check(const Recipe& recipe, const AttentionProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  const KernelConfig& config = recipe.main();
  TS_TRY(check_runs_here(machine_, config));
  if (!serves(config, problem))
    return fail(
        ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
        fmt::format(
            "the problem's kernels are {}",
            native_name({.arch = config.arch, .signature = signature_of(problem), .algorithm = config.algorithm})));
  return {};
}

Result<std::unique_ptr<AttentionPlan>> CpuAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, pool_,
                                           [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const std::int64_t splits = splits_for(problem, config, pool_.threads());
  const TsAttentionArgs args = cpu_arguments(problem, dense_arguments(problem, AttentionLayout::bhsd), splits, nullptr);
  const TsCpuKernel& table = steps.table();
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add("packed values and partials", static_cast<std::size_t>(table.workspace_bytes(&args)));
  layout.tell(info);
  pool_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuAttentionPlan>(problem, std::move(info), std::move(steps), splits);
}

}  // namespace tilesmith
