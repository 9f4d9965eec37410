// GEMM on a CUDA device.
#pragma once

#include <mutex>

#include "dispatch/backend.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/gemm/cuda_list.hpp"
#include "dispatch/gemm/cuda_split_memory.hpp"
#include "instances/gemm/cuda.hpp"
#include "runtime/cuda/memory.hpp"

namespace tilesmith {

[[nodiscard]] CudaGemmShape cuda_gemm_shape(const GemmProblem& problem);

/// The signature of the problem's CUDA kernels: beta * C is an addition at the head of the epilogue. Error: unsupported
/// when the epilogue is then longer than kernels carry.
[[nodiscard]] Result<GemmSignature> cuda_signature_of(const GemmProblem& problem);

class CudaGemm final : public GemmBackend {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  CudaGemm(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : device_index_(device_index), spec_(spec), registry_(registry) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] std::vector<Candidate> fallbacks(const GemmProblem&) const override { return {}; }
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;
  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan_list(std::vector<GemmProblem> problems,
                                                                      const Planner& plan,
                                                                      const DispatcherOptions& options) override;

 private:
  [[nodiscard]] Result<const void*> zeros(const CudaContext& context);
  /// The kernel for lists whose products are like this one, `batch` of them.
  [[nodiscard]] Result<CudaListKernel> list_kernel(const GemmProblem& typical, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  std::mutex mutex_;
  CudaBuffer zeros_;                               ///< made by the first plan
  std::unique_ptr<CudaSplitMemory> split_memory_;  ///< made by the first plan that splits k
  std::mutex list_mutex_;                          ///< held while a list's kernel is chosen, and perhaps compiled
  std::vector<std::pair<GemmProblem, CudaListKernel>> list_kernels_;
};

}  // namespace tilesmith
