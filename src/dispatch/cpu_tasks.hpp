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

}  // namespace tilesmith
