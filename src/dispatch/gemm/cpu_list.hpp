// A list of GEMMs as one job of the CPU's threads: its tasks are those of all GEMMs, the longest GEMMs' first.
#pragma once

#include <vector>

#include "dispatch/gemm/cpu_plan.hpp"
#include "dispatch/gemm/list.hpp"

namespace tilesmith {

class CpuGemmListPlan final : public GemmListPlan {
 public:
  [[nodiscard]] static Result<std::unique_ptr<const GemmListPlan>> make(std::vector<GemmProblem> problems,
                                                                        const ListBackend<Gemm>::Planner& plan,
                                                                        ThreadTeam team);

  [[nodiscard]] Status run(std::span<const GemmArguments> arguments, const RunOptions& options) const override;

 private:
  struct Member {
    const CpuGemmPlan* plan;
    std::size_t product;    ///< its number in the list
    int threads;            ///< its share of them
    std::size_t workspace;  ///< where its part of the workspace begins
  };

  CpuGemmListPlan(std::vector<GemmProblem> problems, PlanInfo info, std::vector<Member> members, ThreadTeam team)
      : GemmListPlan(std::move(problems), std::move(info)), members_(std::move(members)), team_(team) {}

  std::vector<Member> members_;  ///< without empty GEMMs
  ThreadTeam team_;
};

class CpuGemmList final : public ListBackend<Gemm> {
 public:
  explicit CpuGemmList(ThreadTeam team) : team_(team) {}

  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan(std::vector<GemmProblem> problems, const Planner& plan,
                                                                 const DispatcherOptions& options) override;

 private:
  ThreadTeam team_;
};

}  // namespace tilesmith
