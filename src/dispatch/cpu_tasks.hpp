// Tasks written here, not generated, on a team's threads.
#pragma once

#include "base/function_ref.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

/// Runs task(0) to task(count - 1), several at a time. Allocates nothing.
inline void run_tasks(const ThreadTeam& team, long long count, FunctionRef<void(long long)> task) {
  struct Job {
    long long count;
    FunctionRef<void(long long)> task;
  };
  static constexpr auto none = [](const void*) -> long long { return 0; };
  static constexpr TsCpuKernel kernel{
      .abi_version = TS_CPU_ABI_VERSION,
      .stage_count = 1,
      .name = "tasks",
      .key = {0, 0},
      .workspace_bytes = none,
      .scratch_bytes = none,
      .thread_begin = nullptr,
      .thread_end = nullptr,
      .stages = {{[](const void* job) { return static_cast<const Job*>(job)->count; },
                  [](const void* job, long long index, void*) { static_cast<const Job*>(job)->task(index); }},
                 {nullptr, nullptr},
                 {nullptr, nullptr}}};
  const Job job{count, task};
  team.run(kernel, &job);
}

namespace detail {

struct TasksBefore {
  long long count;
  FunctionRef<void(long long)> task;
  const TsCpuKernel& kernel;
  const void* args;

  static const TasksBefore& of(const void* job) { return *static_cast<const TasksBefore*>(job); }
  template <unsigned kStage>
  static constexpr TsCpuStage stage{[](const void* job) { return of(job).kernel.stages[kStage].tasks(of(job).args); },
                                    [](const void* job, long long index, void* scratch) {
                                      of(job).kernel.stages[kStage].run(of(job).args, index, scratch);
                                    }};
};

}  // namespace detail

/// Runs task(0) to task(count - 1), and then the kernel on its arguments: as one job, where the kernel has room for one
/// more stage.
inline void run_tasks_before(const ThreadTeam& team, long long count, FunctionRef<void(long long)> task,
                             const TsCpuKernel& kernel, const void* args) {
  if (kernel.stage_count >= TS_CPU_MAX_STAGES) {
    run_tasks(team, count, task);
    team.run(kernel, args);
    return;
  }
  using Job = detail::TasksBefore;
  static_assert(TS_CPU_MAX_STAGES == 3);
  TsCpuKernel both = kernel;
  both.stage_count = kernel.stage_count + 1;
  both.scratch_bytes = [](const void* job) { return Job::of(job).kernel.scratch_bytes(Job::of(job).args); };
  both.stages[0] = {[](const void* job) { return Job::of(job).count; },
                    [](const void* job, long long index, void*) { Job::of(job).task(index); }};
  both.stages[1] = Job::stage<0>;
  both.stages[2] = Job::stage<1>;
  const Job job{count, task, kernel, args};
  team.run(both, &job);
}

}  // namespace tilesmith
