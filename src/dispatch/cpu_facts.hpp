// What choosing needs to know of this machine, for calls on a team's threads.
#pragma once

#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

[[nodiscard]] inline CpuFacts facts_of(const CpuMachine& machine, const ThreadTeam& team) {
  return {.threads = team.threads(), .levels = machine.levels};
}

}  // namespace tilesmith
