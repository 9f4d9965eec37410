// A trial on a CUDA device: the case's inputs are copied there once, its results copied back.
#pragma once

#include <memory>

#include "trial/attention/trial.hpp"
#include "trial/cuda_bench.hpp"

namespace tilesmith {

class CudaTrial final : public Trial {
 public:
  /// Copies the inputs. Errors: not_found (no driver), invalid_argument (no such device), out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<Trial>> create(const AttentionCase& problem_case, int device_index);

  [[nodiscard]] Status run(const AttentionPlan& plan, AttentionOutputs& outputs) override;
  [[nodiscard]] Result<Verdict> verify(const AttentionPlan& plan, const AttentionReference& reference) override;
  [[nodiscard]] Result<TrialTiming> time(const AttentionPlan& plan, const MeasureOptions& options) override;

 private:
  CudaTrial(const AttentionCase& problem_case, CudaBench bench) : case_(problem_case), bench_(std::move(bench)) {}

  /// The call with the inputs on the device; its outputs are still to be set.
  [[nodiscard]] AttentionArguments arguments() const;

  const AttentionCase& case_;
  CudaBench bench_;
};

}  // namespace tilesmith
