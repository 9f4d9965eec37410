// GEMM on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

/// Why no instance of any level computes the problem: the rule that refuses one which differs from valid ones in the
/// signature alone.
[[nodiscard]] Error cpu_gemm_refusal(const CpuMachine& machine, const GemmSignature& signature);

class CpuGemm final : public OperationBackend<Gemm> {
 public:
  CpuGemm(const CpuMachine& machine, CpuRegistry& registry, ThreadPool& pool)
      : machine_(machine), registry_(registry), pool_(pool) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                             std::string reason, BuildPolicy build);
  void order(const GemmProblem& problem, std::vector<Candidate>& candidates) const;

  const CpuMachine& machine_;
  CpuRegistry& registry_;
  ThreadPool& pool_;
};

}  // namespace tilesmith
