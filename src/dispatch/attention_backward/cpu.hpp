// Attention backward on the CPU. One kernel computes all gradients: its stages are what are steps of a recipe
// elsewhere, because on a CPU a stage costs no launch, and the tasks of dq, dk and dv share one list.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuAttentionBackward final : public OperationBackend<AttentionBwd> {
 public:
  CpuAttentionBackward(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionBackwardPlan>> plan(const AttentionBackwardProblem& problem,
                                                                    const Candidate& chosen, std::string reason,
                                                                    BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
