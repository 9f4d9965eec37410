// Packing w on the CPU: the first stage of a kernel, behind the header of cpu_packed_w.hpp.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuConvPackW final : public OperationBackend<ConvPackW> {
 public:
  CpuConvPackW(const CpuMachine& machine, CpuRegistry& registry, ThreadTeam team)
      : facts_(facts_of(machine, team)), registry_(registry), team_(team) {}

  /// One recipe: kernels that read panels of another form could not use them.
  [[nodiscard]] Result<Ranking> rank(const ConvPackWProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const ConvPackWProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<ConvPackWPlan>> plan(const ConvPackWProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadTeam team_;
};

}  // namespace tilesmith
