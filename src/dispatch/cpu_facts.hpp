// What choosing needs to know of this machine, for calls on a pool's threads.
#pragma once

#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

[[nodiscard]] inline CpuFacts facts_of(const CpuMachine& machine, const ThreadPool& pool) {
  return {.threads = pool.threads(), .levels = machine.levels};
}

}  // namespace tilesmith
