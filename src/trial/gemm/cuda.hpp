// A GEMM trial on a CUDA device: the case's inputs are copied there once, its results copied back.
#pragma once

#include <memory>

#include "trial/cuda_bench.hpp"
#include "trial/gemm/trial.hpp"

namespace tilesmith {

class CudaGemmTrial final : public GemmTrial {
 public:
  /// Copies the inputs. Errors: not_found (no driver), invalid_argument (no such device), out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<GemmTrial>> create(const GemmCase& problem_case, int device_index);

  [[nodiscard]] Status run(const GemmPlan& plan, GemmOutputs& outputs) override;
  [[nodiscard]] Result<Verdict> verify(const GemmPlan& plan, const GemmReference& reference) override;
  [[nodiscard]] Result<TrialTiming> time(const GemmPlan& plan, const MeasureOptions& options) override;

 private:
  CudaGemmTrial(const GemmCase& problem_case, CudaBench bench, CudaBuffer amax)
      : case_(problem_case), bench_(std::move(bench)), amax_(std::move(amax)) {}

  /// The call with the inputs on the device, amax from 0 on; D is still to be set.
  [[nodiscard]] Result<GemmArguments> arguments() const;

  const GemmCase& case_;
  CudaBench bench_;
  CudaBuffer amax_;
};

}  // namespace tilesmith
