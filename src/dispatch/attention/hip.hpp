// Attention forward on an AMD GPU.
#pragma once

#include <memory>
#include <mutex>

#include "dispatch/backend.hpp"
#include "dispatch/hip_registry.hpp"
#include "dispatch/hip_split_memory.hpp"

namespace tilesmith {

class HipAttention final : public OperationBackend<AttentionFwd> {
 public:
  /// `spec` has the figures of the device at hand. The device itself is touched by plan() alone.
  HipAttention(int device_index, const HipSpec& spec, HipRegistry& registry)
      : device_index_(device_index), spec_(spec), registry_(registry) {}

  [[nodiscard]] Result<Ranking> rank(const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::vector<Refusal>> refusals(const AttentionProblem& problem) const override;
  [[nodiscard]] Status check(const Recipe& recipe, const AttentionProblem& problem) const override;
  [[nodiscard]] Result<std::unique_ptr<AttentionPlan>> plan(const AttentionProblem& problem, const Candidate& chosen,
                                                            std::string reason, BuildPolicy build) override;

 private:
  [[nodiscard]] HipSplitMemory& split_memory(const HipDevice& device);

  int device_index_;
  const HipSpec& spec_;
  HipRegistry& registry_;
  std::mutex mutex_;
  std::unique_ptr<HipSplitMemory> split_memory_;  ///< made by the first plan that splits keys
};

}  // namespace tilesmith
