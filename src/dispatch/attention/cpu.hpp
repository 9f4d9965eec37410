// Attention forward on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

class CpuAttention final : public OperationBackend<AttentionFwd> {
 public:
  CpuAttention(const CpuMachine& machine, CpuRegistry& registry, ThreadPool& pool)
      : facts_(facts_of(machine, pool)), registry_(registry), pool_(pool) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const AttentionProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionPlan>> plan(const AttentionProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadPool& pool_;
};

}  // namespace tilesmith
