// A launch of a GEMM kernel on an AMD GPU: the grid worked out once, a call's addresses, strides and numbers filled in
// by each run.
#pragma once

#include <memory>

#include "instances/gemm/hip_resources.hpp"
#include "kernels/hip/gemm/abi.h"
#include "runtime/hip/kernel.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class HipGemmPlan final : public GemmPlan {
 public:
  /// The config is of the problem's signature; D is row-major. Error: unsupported for sizes beyond a launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<GemmPlan>> make(const GemmProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const HipSpec& spec,
                                                              const HipKernel& kernel);

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override;

 private:
  HipGemmPlan(const GemmProblem& problem, PlanInfo info, const HipGemmResources& facts, const HipKernel& kernel)
      : GemmPlan(problem, std::move(info)), facts_(facts), kernel_(kernel) {}

  /// Whether pointers and strides are multiples of what the kernel's accesses ask for. Error: invalid_argument.
  [[nodiscard]] Status check_alignment(const GemmArguments& arguments) const;
  [[nodiscard]] TsHipGemmArgs kernel_arguments(const GemmArguments& arguments) const;

  HipGemmResources facts_;
  HipKernel kernel_;
  unsigned blocks_ = 0;
};

}  // namespace tilesmith
