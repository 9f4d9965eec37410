// A CPU kernel that runs one GEMM.
#pragma once

#include "dispatch/cpu_steps.hpp"
#include "dispatch/gemm/cpu_arguments.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CpuGemmPlan final : public GemmPlan {
 public:
  /// `splits`: partials of k, of kernels that split it, when all of the team's threads work for the GEMM. `panels`:
  /// what a packed B is to be.
  CpuGemmPlan(const GemmProblem& problem, PlanInfo info, const CpuGemmEpilogue& terms, CpuSteps steps,
              std::int64_t splits, const PackedHeader& panels)
      : GemmPlan(problem, std::move(info)),
        terms_(terms),
        form_(generic_form(problem)),
        steps_(std::move(steps)),
        splits_(splits),
        panels_(panels) {}

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override;

  /// Checks that a packed B is what the kernel reads; of valid arguments.
  [[nodiscard]] Status check_packed(const GemmArguments& arguments) const;

  [[nodiscard]] const TsCpuKernel& table() const { return steps_.table(); }
  /// What the kernel is called with when `threads` of the team's threads work for the GEMM, while the plan and
  /// `arguments` are there.
  [[nodiscard]] TsGenericGemmArgs kernel_arguments(const GemmArguments& arguments, int threads, void* workspace) const;

 private:
  void run(const GemmProblem& problem, const GemmArguments& arguments, const RunOptions& options) const;
  [[nodiscard]] Status run_groups(const GemmArguments& arguments, const RunOptions& options) const;

  CpuGemmEpilogue terms_;
  TsGemmForm form_;
  CpuSteps steps_;
  std::int64_t splits_;
  PackedHeader panels_;
};

}  // namespace tilesmith
