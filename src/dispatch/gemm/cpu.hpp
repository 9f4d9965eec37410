// GEMM on the CPU.
#pragma once

#include "dispatch/backend.hpp"
#include "dispatch/cpu_registry.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

class CpuGemm final : public GemmBackend {
 public:
  CpuGemm(const CpuMachine& machine, CpuRegistry& registry, ThreadPool& pool)
      : machine_(machine), registry_(registry), pool_(pool) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;
  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_list(std::vector<GemmProblem> problems,
                                                                      const Planner& plan,
                                                                      const DispatcherOptions& options) override;
  /// The kernel whose first stage packs B of the problem's order: the best blocked one of a typical product of these
  /// types, n and k on one thread, so that the panels' form depends on nothing else.
  [[nodiscard]] Result<KernelConfig> packer(const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::size_t> packed_b_bytes(const GemmProblem& problem, BuildPolicy build) override;
  [[nodiscard]] Status pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed,
                              BuildPolicy build) override;

 private:
  void order(const GemmProblem& problem, std::vector<Candidate>& candidates) const;

  const CpuMachine& machine_;
  CpuRegistry& registry_;
  ThreadPool& pool_;
};

}  // namespace tilesmith
