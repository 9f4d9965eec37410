// A call between copies that fill channels up to whole octets (choose/conv/cuda_padded.hpp): the plan of the padded
// problem, whose tensors lie in memory of the library or in the caller's workspace.
#pragma once

#include <array>
#include <memory>

#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaPaddedPlan final : public ConvPlan {
 public:
  /// `inner` is of the padded problem; `steps` is the kernel that copies, of so many threads. Errors: out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const CudaSpec& spec, CudaSteps steps, int threads,
                                                              std::unique_ptr<ConvPlan> inner, CudaSplitMemory& memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaPaddedPlan(const ConvProblem& problem, PlanInfo info, CudaSteps steps, std::unique_ptr<ConvPlan> inner,
                 CudaSplitMemory& memory)
      : ConvPlan(problem, std::move(info)), steps_(std::move(steps)), inner_(std::move(inner)), memory_(memory) {}

  CudaSteps steps_;
  std::unique_ptr<ConvPlan> inner_;
  CudaSplitMemory& memory_;
  CudaSplitMemory::Size size_;
  std::array<std::int64_t, 3> elements_{};  ///< of x, w and y as the kernel has them; 0: not copied
  std::array<std::size_t, 3> offsets_{};    ///< of these in the memory
  std::size_t of_kernel_ = 0;               ///< of the kernel's own workspace, in the caller's
  int blocks_ = 0;                          ///< that copy
};

}  // namespace tilesmith
