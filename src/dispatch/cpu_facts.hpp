// What choosing needs to know of this machine, for calls on a team's threads, and which of them a call gets.
#pragma once

#include "choose/cpu_threads.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

[[nodiscard]] inline CpuFacts facts_of(const CpuMachine& machine, const ThreadTeam& team) {
  return {.threads = team.threads(), .levels = machine.levels};
}

/// The threads that a kernel gets for a problem: all of the team's, or one where sharing gains nothing. The model is
/// the operation's predicted_seconds.
template <class Problem>
[[nodiscard]] ThreadTeam team_worth(const Problem& problem, const KernelConfig& config, const CpuFacts& facts,
                                    const ThreadTeam& team) {
  const CpuSpec* spec = facts.level(config.arch);
  return spec == nullptr ? team : team.at_most(threads_worth(problem, config, *spec, team.threads()));
}

}  // namespace tilesmith
