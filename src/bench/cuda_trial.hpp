// A trial on a CUDA device: the case's inputs are copied there once, its results copied back.
#pragma once

#include <map>
#include <memory>

#include "bench/trial.hpp"
#include "runtime/cuda_memory.hpp"
#include "runtime/cuda_stream.hpp"
#include "tune/cuda_measure.hpp"

namespace tilesmith {

class CudaTrial final : public Trial {
 public:
  /// Copies the inputs. Errors: not_found (no such device), out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<Trial>> create(const AttentionCase& problem_case, int device_index);

  [[nodiscard]] Status run(const AttentionPlan& plan, AttentionOutputs& outputs) override;
  [[nodiscard]] Result<Verdict> verify(const AttentionPlan& plan, const AttentionExpectation& expectation) override;
  [[nodiscard]] Result<TrialTiming> time(const AttentionPlan& plan, const MeasureOptions& options) override;

 private:
  CudaTrial(const AttentionCase& problem_case, const CudaContext& context, CudaStream stream)
      : case_(problem_case), context_(context), stream_(std::move(stream)) {}

  [[nodiscard]] Status upload();
  /// The call with the inputs on the device; its outputs are still to be set.
  [[nodiscard]] AttentionArguments arguments() const;

  const AttentionCase& case_;
  const CudaContext& context_;
  CudaStream stream_;
  std::map<const void*, CudaBuffer> inputs_;  ///< by the host's address
};

}  // namespace tilesmith
