#include "dispatch/gemm/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "choose/cpu_threads.hpp"
#include "choose/gemm/cpu.hpp"
#include "choose/gemm/cpu_model.hpp"
#include "choose/gemm/cpu_terms.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/gemm/cpu_arguments.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "dispatch/gemm/cpu_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "instances/gemm/cpu_epilogue.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLeastRows = 4;  // of a register tile: fewer or more rows make a difference from there to there

}  // namespace

Result<Ranking> CpuGemm::rank(const GemmProblem& problem) const {
  return tilesmith::rank(facts_, problem);
}

std::vector<Candidate> CpuGemm::fallbacks(const GemmProblem& problem) const {
  return tilesmith::fallbacks(facts_, problem, registry_.essential());
}

Result<std::vector<Refusal>> CpuGemm::refusals(const GemmProblem& problem) const {
  return tilesmith::refusals(facts_, problem);
}

Status CpuGemm::check(const Recipe& recipe, const GemmProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(facts_, recipe.main(), problem);
}

Result<std::unique_ptr<GemmPlan>> CpuGemm::plan(const GemmProblem& problem, const Candidate& chosen, std::string reason,
                                                BuildPolicy build) {
  return plan_with_row_d(problem,
                         [&](const GemmProblem& row_d) { return plan_row_d(row_d, chosen, std::move(reason), build); });
}

Result<std::unique_ptr<GemmPlan>> CpuGemm::plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                      std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  const bool generic = config.algorithm.pipeline == Pipeline::generic;
  TS_ASSIGN(const CpuGemmEpilogue terms,
            generic ? Result<CpuGemmEpilogue>(CpuGemmEpilogue{}) : cpu_gemm_epilogue(problem.epilogue, problem.beta));
  const TsGemmForm form = generic_form(problem);
  const CpuSpec* spec = facts_.level(config.arch);
  const GemmProblem typical = typical_call(problem);
  const ThreadTeam team = team_worth(typical, config, facts_, team_);
  TS_ASSIGN(CpuSteps steps,
            CpuSteps::load(chosen.recipe, team, [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const std::int64_t splits = spec == nullptr ? 1 : splits_for(typical, config, *spec, team.threads());
  const TsCpuKernel& table = steps.table();
  std::size_t workspace = 0, scratch = 0;
  const auto make_room = [&](const GemmProblem& call) {
    // A matrix B that the batch shares is packed otherwise than one for each member: there is room for both.
    for (const bool shared_b : {false, true}) {
      GemmArguments arguments = dense_arguments(call);
      if (shared_b) arguments.b.batch = arguments.b2.batch = 0;
      const TsGenericGemmArgs args = cpu_arguments(call, terms, form, arguments, splits, team.threads(), nullptr);
      workspace = std::max(workspace, static_cast<std::size_t>(table.workspace_bytes(&args)));
      scratch = std::max(scratch, static_cast<std::size_t>(table.scratch_bytes(&args)));
    }
  };
  if (problem.grouping == GemmGrouping::none) {
    make_room(problem);
  } else {
    // A group of fewer rows may be cut into other tasks, until there are whole tiles for all threads.
    const std::int64_t uneven = std::min(problem.m, std::int64_t{config.algorithm.tile[0]} * 4 * team.threads());
    for (std::int64_t rows = 1; rows < uneven; rows += kLeastRows) make_room(problem_of_group(problem, rows));
    make_room(problem_of_group(problem, uneven));
    make_room(problem_of_group(problem, problem.m));
  }
  team_.reserve_scratch(scratch);
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add("packed panels and partials", workspace);
  layout.tell(info);
  return std::make_unique<CpuGemmPlan>(problem, std::move(info), terms, std::move(steps), splits,
                                       PackedHeader::of(problem, config, 0));
}

}  // namespace tilesmith
