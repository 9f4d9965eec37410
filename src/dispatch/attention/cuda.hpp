// Attention forward on a CUDA device.
#pragma once

#include <mutex>

#include "dispatch/attention/cuda_tile_counters.hpp"
#include "dispatch/attention/cuda_whole_rows.hpp"
#include "dispatch/attention/ranked_lengths.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/cuda_registry.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

class CudaAttention final : public OperationBackend<AttentionFwd> {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  CudaAttention(int device_index, const CudaSpec& spec, CudaRegistry& registry, DirectBackend<AppendKvCall>& append)
      : device_index_(device_index), spec_(spec), registry_(registry), append_(append) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const AttentionProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionPlan>> plan(const AttentionProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] Result<CudaTileCounters*> counters(const CudaContext& context);
  [[nodiscard]] CudaSplitMemory& split_memory(const CudaContext& context);
  [[nodiscard]] Result<CudaRowCopier> copier(const CudaContext& context, BuildPolicy build);

  int device_index_;
  const CudaSpec& spec_;
  CudaRegistry& registry_;
  DirectBackend<AppendKvCall>& append_;  ///< what comes before attention on what it appends
  mutable RankedLengths ranked_;
  std::mutex mutex_;
  std::unique_ptr<CudaTileCounters> counters_;     ///< made by the first plan
  std::unique_ptr<CudaSplitMemory> split_memory_;  ///< made by the first plan that splits keys
  std::unique_ptr<CudaSplitMemory> copied_rows_;   ///< made by the first plan that copies rows
};

}  // namespace tilesmith
