// Attention forward on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuAttention final : public OperationBackend<AttentionFwd> {
 public:
  CpuAttention(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const AttentionProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionPlan>> plan(const AttentionProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
