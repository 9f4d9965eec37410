// Packing B on the CPU: the first stage of a blocked kernel, behind the header of cpu_packed_b.hpp.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuGemmPackB final : public OperationBackend<GemmPackB> {
 public:
  CpuGemmPackB(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  /// One recipe: kernels that read panels of another form could not use them.
  [[nodiscard]] Result<Ranking> rank(const GemmPackBProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmPackBProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPackBPlan>> plan(const GemmPackBProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
