// Serving's direct calls on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

/// Elements from a tensor's beginning to row i of a head.
[[nodiscard]] constexpr std::int64_t offset(const AttentionStrides& s, std::int64_t b, std::int64_t h, std::int64_t i) {
  return b * s.batch + h * s.head + i * s.row;
}

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
