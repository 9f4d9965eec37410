#include "dispatch/gemm/cpu_list.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "dispatch/cpu_workspace.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/workspace.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

/// The GEMMs of one run, as the tasks of one kernel.
struct Job {
  std::vector<const TsCpuKernel*> kernels;
  std::vector<TsGenericGemmArgs> args;
  /// Of each stage: the number of each GEMM's first task, and of all tasks.
  std::array<std::vector<long long>, TS_CPU_MAX_STAGES> first;
  long long scratch_bytes;
  void (*thread_begin)();
  void (*thread_end)();

  void clear() {
    kernels.clear();
    args.clear();
    for (auto& each : first) each.assign(1, 0);
    scratch_bytes = 0;
    thread_begin = thread_end = nullptr;
  }

  void add(const TsCpuKernel& kernel, const TsGenericGemmArgs& product) {
    kernels.push_back(&kernel);
    args.push_back(product);
    for (unsigned s = 0; s < TS_CPU_MAX_STAGES; ++s) {
      const long long tasks = s < kernel.stage_count ? kernel.stages[s].tasks(&args.back()) : 0;
      first[s].push_back(first[s].back() + tasks);
    }
    scratch_bytes = std::max(scratch_bytes, kernel.scratch_bytes(&args.back()));
    // Kernels that set a thread up configure its tile registers, all in one way (product_amx.h).
    if (kernel.thread_begin != nullptr) {
      thread_begin = kernel.thread_begin;
      thread_end = kernel.thread_end;
    }
  }
};

const Job& job_of(const void* args) {
  return *static_cast<const Job*>(args);
}

template <unsigned kStage>
constexpr TsCpuStage stage() {
  return {[](const void* args) { return job_of(args).first[kStage].back(); },
          [](const void* args, long long index, void* scratch) {
            const Job& job = job_of(args);
            const std::vector<long long>& first = job.first[kStage];
            const auto at = static_cast<std::size_t>(std::ranges::upper_bound(first, index) - first.begin()) - 1;
            job.kernels[at]->stages[kStage].run(&job.args[at], index - first[at], scratch);
          }};
}

}  // namespace

Result<std::unique_ptr<const GemmListPlan>> CpuGemmListPlan::make(std::vector<GemmProblem> problems,
                                                                  const ListBackend<Gemm>::Planner& plan,
                                                                  ThreadTeam team) {
  TS_ASSIGN(const std::vector<const GemmPlan*> plans, plans_of(problems, plan));
  double all = 0;
  for (const GemmProblem& problem : problems) all += flops_of(problem);
  std::vector<Member> members;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProblem& p = problems[i];
    if (p.m == 0 || p.n == 0 || p.batch == 0) continue;
    const double share = all > 0 ? flops_of(p) / all : 1;
    const int threads = std::max(1, static_cast<int>(std::ceil(share * team.threads())));
    members.push_back({static_cast<const CpuGemmPlan*>(plans[i]), i, threads, 0});
  }
  std::ranges::stable_sort(members, std::greater{}, [&](const Member& x) { return flops_of(problems[x.product]); });
  // One job for all threads takes about as long as its GEMMs one after another: their work is the same.
  GemmListInfo steps;
  for (std::size_t i = 0; i < plans.size(); ++i)
    steps.add(*plans[i], problems[i].m != 0 && problems[i].n != 0 && problems[i].batch != 0);
  PlanInfo info = steps.info({}, plans.size(), "in one job for all threads");
  WorkspaceLayout layout;
  long long scratch = 0;
  for (Member& member : members) {
    const TsCpuKernel& table = member.plan->table();
    long long workspace = 0;
    for (const bool shared_b : {false, true}) {  // packed otherwise than one for each member of the batch
      GemmArguments arguments = dense_arguments(problems[member.product]);
      if (shared_b) arguments.b.batch = arguments.b2.batch = 0;
      const TsGenericGemmArgs args = member.plan->kernel_arguments(arguments, member.threads, nullptr);
      workspace = std::max(workspace, table.workspace_bytes(&args));
      scratch = std::max(scratch, table.scratch_bytes(&args));
    }
    member.workspace = layout.add(fmt::format("GEMM {}", member.product), static_cast<std::size_t>(workspace));
  }
  layout.tell(info);
  team.reserve_scratch(static_cast<std::size_t>(scratch));
  return std::unique_ptr<const GemmListPlan>(
      new CpuGemmListPlan(std::move(problems), std::move(info), std::move(members), team));
}

Result<std::unique_ptr<const GemmListPlan>> CpuGemmList::plan(std::vector<GemmProblem> problems, const Planner& plan,
                                                              const DispatcherOptions&) {
  return plan_with_row_d(std::move(problems), [&](std::vector<GemmProblem> row_d) {
    return CpuGemmListPlan::make(std::move(row_d), plan, team_);
  });
}

Status CpuGemmListPlan::run(std::span<const GemmArguments> arguments, const RunOptions& options) const {
  TS_TRY(validate(problems(), arguments));
  for (const Member& member : members_)
    if (const Status status = member.plan->check_packed(arguments[member.product]); !status)
      return std::unexpected(of_product(status.error(), member.product, problems().size()));
  thread_local Job job;
  job.clear();
  auto* const workspace = static_cast<std::byte*>(cpu_workspace(options, workspace_bytes()));
  for (const Member& member : members_) {
    void* const own = workspace == nullptr ? nullptr : workspace + member.workspace;
    job.add(member.plan->table(), member.plan->kernel_arguments(arguments[member.product], member.threads, own));
  }
  TsCpuKernel kernel{.abi_version = TS_CPU_ABI_VERSION,
                     .stage_count = TS_CPU_MAX_STAGES,
                     .name = "gemm_list",
                     .key = {},
                     .workspace_bytes = nullptr,
                     .scratch_bytes = [](const void* args) { return job_of(args).scratch_bytes; },
                     .thread_begin = job.thread_begin,
                     .thread_end = job.thread_end,
                     .stages = {stage<0>(), stage<1>(), stage<2>()}};
  team_.run(kernel, &job);
  return {};
}

}  // namespace tilesmith
