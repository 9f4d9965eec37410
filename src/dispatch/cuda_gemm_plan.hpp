// A launch of a CUDA GEMM kernel: the problem's part of it worked out once, a call's part (addresses, strides, numbers)
// filled in by each run.
#pragma once

#include <memory>

#include "enumerate/cuda_gemm.hpp"
#include "kernels/cuda/gemm_abi.h"
#include "runtime/cuda_kernel.hpp"
#include "runtime/cuda_memory.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaGemmPlan final : public GemmPlan {
 public:
  /// `zeros` are 16 bytes of zeros on the device, which stand in for A and B where alpha is 0. Errors: unsupported for
  /// sizes beyond a launch's limits.
  [[nodiscard]] static Result<std::unique_ptr<GemmPlan>> make(const GemmProblem& problem, PlanFacts plan,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              const CudaKernel& kernel, const void* zeros);

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override;

 private:
  CudaGemmPlan(const GemmProblem& problem, PlanFacts plan, const KernelConfig& config, const CudaKernel& kernel,
               const void* zeros)
      : GemmPlan(problem, std::move(plan)),
        kernel_(kernel),
        algorithm_(config.algorithm),
        facts_(cuda_gemm_facts(config)),
        zeros_(zeros) {}

  [[nodiscard]] Status check(const GemmArguments& arguments) const;
  [[nodiscard]] TsCudaGemmArgs kernel_arguments(const GemmArguments& arguments) const;
  [[nodiscard]] Status encode_maps(const GemmArguments& arguments, TsCudaGemmMaps& maps) const;

  CudaKernel kernel_;
  Algorithm algorithm_;
  CudaGemmFacts facts_;
  const void* zeros_;
  CudaLaunch launch_;
};

}  // namespace tilesmith
