// GEMM on a CUDA device.
#pragma once

#include <mutex>

#include "choose/gemm/cuda.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "runtime/cuda/memory.hpp"

namespace tilesmith {

class CudaGemm final : public OperationBackend<Gemm> {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  CudaGemm(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : device_index_(device_index), spec_(spec), registry_(registry) {}

  [[nodiscard]] Result<Ranking> rank(const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const GemmProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const GemmProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan(const GemmProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

  /// What ranking knows of signatures, for operations that are products of matrices too.
  [[nodiscard]] CudaGemmKept& kept() const { return kept_; }

 private:
  [[nodiscard]] Result<const void*> zeros(const CudaContext& context);
  [[nodiscard]] Result<std::unique_ptr<GemmPlan>> plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                             std::string reason, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  mutable CudaGemmKept kept_;
  std::mutex mutex_;
  CudaBuffer zeros_;                               ///< made by the first plan
  std::unique_ptr<CudaSplitMemory> split_memory_;  ///< made by the first plan that splits k
};

}  // namespace tilesmith
