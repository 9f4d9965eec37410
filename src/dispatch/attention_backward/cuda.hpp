// Attention backward on a CUDA device.
#pragma once

#include <memory>
#include <mutex>

#include "dispatch/attention/cuda_whole_rows.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

class CudaAttentionBackward final : public OperationBackend<AttentionBwd> {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  CudaAttentionBackward(int device_index, const CudaSpec& spec, CudaRegistry& registry)
      : device_index_(device_index), spec_(spec), registry_(registry) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionBackwardProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionBackwardPlan>> plan(const AttentionBackwardProblem& problem,
                                                                    const Candidate& chosen, std::string reason,
                                                                    BuildPolicy build) override;

 private:
  [[nodiscard]] CudaSplitMemory& memory(const CudaContext& context);
  [[nodiscard]] Result<CudaRowCopier> copier(const CudaContext& context, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  std::mutex mutex_;
  std::unique_ptr<CudaSplitMemory> memory_;       ///< made by the first plan
  std::unique_ptr<CudaSplitMemory> copied_rows_;  ///< made by the first plan that copies rows
};

}  // namespace tilesmith
