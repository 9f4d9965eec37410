// Convolution on a CUDA device.
#pragma once

#include <memory>
#include <mutex>

#include "choose/conv/cuda.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/gemm/cuda.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

class CudaConv final : public OperationBackend<Conv> {
 public:
  /// `spec` has the figures of the device at hand; `gemm` plans what is a product of matrices. The device itself is
  /// touched by plan() alone.
  CudaConv(int device_index, const CudaSpec& spec, CudaRegistry& registry, CudaGemm& gemm)
      : device_index_(device_index), spec_(spec), registry_(registry), gemm_(gemm) {}

  [[nodiscard]] Result<Ranking> rank(const ConvProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const ConvProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const ConvProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const Candidate& chosen,
                                                       std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] CudaSplitMemory& split_memory(const CudaContext& context);
  [[nodiscard]] CudaSplitMemory& padded_memory(const CudaContext& context);
  /// A recipe of several steps: a kernel of the padded problem between copies.
  [[nodiscard]] Result<std::unique_ptr<ConvPlan>> plan_padded(const ConvProblem& problem, const Candidate& chosen,
                                                              std::string reason, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  CudaGemm& gemm_;
  mutable CudaConvKept kept_;
  std::mutex mutex_;
  std::unique_ptr<CudaSplitMemory> split_memory_;   ///< made by the first plan that cuts a sum
  std::unique_ptr<CudaSplitMemory> padded_memory_;  ///< of tensors between copies; apart, as both are a run's at a time
};

}  // namespace tilesmith
