// What a plan holds: a loaded kernel and what its calls need beside their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu_kernel.hpp"
#include "runtime/thread_pool.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

struct Plan::Impl {
  Impl(const AttentionProblem& of, const CpuKernel& by) : problem(of), kernel(by) {}

  AttentionProblem problem;
  CpuKernel kernel;
  ThreadPool* pool = nullptr;
  std::int64_t splits = 1;
  std::size_t workspace_bytes = 0;
  std::string kernel_name;
  std::string reason;
  std::vector<PlanStage> stages;
};

}  // namespace tilesmith
