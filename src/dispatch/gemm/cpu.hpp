// GEMM on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuGemm final : public OperationBackend<Gemm> {
 public:
  CpuGemm(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                             std::string reason, BuildPolicy build);

  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
