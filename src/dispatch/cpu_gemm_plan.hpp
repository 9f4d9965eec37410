// A CPU kernel that runs one GEMM.
#pragma once

#include "dispatch/cpu_gemm_problem.hpp"
#include "runtime/cpu_kernel.hpp"
#include "runtime/thread_pool.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CpuGemmPlan final : public GemmPlan {
 public:
  /// `splits`: pieces of k, of kernels that split it, when all of the pool's threads work for the product.
  CpuGemmPlan(const GemmProblem& problem, PlanFacts facts, const CpuGemmTerms& terms, const CpuKernel& kernel,
              ThreadPool& pool, std::int64_t splits)
      : GemmPlan(problem, std::move(facts)), terms_(terms), kernel_(kernel), pool_(pool), splits_(splits) {}

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override;

  [[nodiscard]] const TsCpuKernel& table() const { return kernel_.table(); }
  /// What the kernel is called with when `threads` of the pool's work for the product.
  [[nodiscard]] TsGemmArgs kernel_arguments(const GemmArguments& arguments, int threads, void* workspace) const;

 private:
  void run(const GemmProblem& problem, const GemmArguments& arguments, const RunOptions& options) const;
  [[nodiscard]] Status run_groups(const GemmArguments& arguments, const RunOptions& options) const;

  CpuGemmTerms terms_;
  CpuKernel kernel_;
  ThreadPool& pool_;
  std::int64_t splits_;
};

}  // namespace tilesmith
