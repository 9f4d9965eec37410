// Serving's direct calls on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuMergeStates final : public DirectBackend<MergeStatesCall> {
 public:
  explicit CpuMergeStates(ThreadTeam team) : team_(team) {}
  [[nodiscard]] Status run(const MergeStates& call, const RunOptions& options) override;

 private:
  ThreadTeam team_;
};

class CpuAppendKv final : public DirectBackend<AppendKvCall> {
 public:
  explicit CpuAppendKv(ThreadTeam team) : team_(team) {}
  [[nodiscard]] Status run(const AppendKv& call, const RunOptions& options) override;

 private:
  ThreadTeam team_;
};

}  // namespace tilesmith
