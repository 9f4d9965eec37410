// GEMM on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_facts.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

class CpuGemm final : public OperationBackend<Gemm> {
 public:
  CpuGemm(const CpuMachine& machine, CpuRegistry& registry, ThreadPool& pool)
      : facts_(facts_of(machine, pool)), registry_(registry), pool_(pool) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                             std::string reason, BuildPolicy build);

  CpuFacts facts_;
  CpuRegistry& registry_;
  ThreadPool& pool_;
};

}  // namespace tilesmith
