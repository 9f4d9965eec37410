#include "dispatch/gemm/cpu_plan.hpp"

#include <algorithm>

#include "dispatch/cpu_workspace.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

Status CpuGemmPlan::run(const GemmArguments& arguments, const RunOptions& options) const {
  TS_TRY(validate(problem(), arguments));
  if (problem().m == 0 || problem().n == 0 || problem().batch == 0) return {};
  TS_TRY(check_packed(arguments));
  if (problem().grouping != GemmGrouping::none) return run_groups(arguments, options);
  run(problem(), arguments, options);
  return {};
}

Status CpuGemmPlan::check_packed(const GemmArguments& arguments) const {
  if (!problem().packed_b || arguments.alpha == 0) return {};
  return panels_.check(arguments.b.data, arguments.b.leading);
}

TsGenericGemmArgs CpuGemmPlan::kernel_arguments(const GemmArguments& arguments, int threads, void* workspace) const {
  const int most = steps_.team().threads();
  const int own = std::min(threads, most);
  const std::int64_t splits = (splits_ * own + most - 1) / most;
  return cpu_arguments(problem(), terms_, form_, arguments, splits, own, workspace);
}

void CpuGemmPlan::run(const GemmProblem& problem, const GemmArguments& arguments, const RunOptions& options) const {
  const TsGenericGemmArgs args = cpu_arguments(problem, terms_, form_, arguments, splits_, steps_.team().threads(),
                                               cpu_workspace(options, workspace_bytes()));
  steps_.run([&](std::size_t, auto&& send) { send(args); });
}

/// One group after the other, each on all threads.
Status CpuGemmPlan::run_groups(const GemmArguments& arguments, const RunOptions& options) const {
  const GemmProblem& p = problem();
  TS_TRY(check_group_ends(p, arguments.group_ends));
  for (std::int64_t g = 0; g < p.batch; ++g) {
    const GemmGroup group = group_of(p, arguments.group_ends, g);
    if (group.rows() == 0) continue;
    run(problem_of_group(p, group.rows()), arguments_of_group(p, arguments, group), options);
  }
  return {};
}

}  // namespace tilesmith
