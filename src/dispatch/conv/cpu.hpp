// Convolution on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuConv final : public OperationBackend<Conv> {
 public:
  CpuConv(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  [[nodiscard]] Result<Ranking> rank(const ConvProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const ConvProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const ConvProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
