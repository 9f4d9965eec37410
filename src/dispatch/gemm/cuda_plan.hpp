// A launch of a CUDA GEMM kernel: the problem's part of it worked out once, a call's part (addresses, strides, numbers)
// filled in by each run.
#pragma once

#include <memory>
#include <optional>

#include "choose/gemm/cuda_work.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "kernels/cuda/gemm/abi.h"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// Whether pointers and strides are multiples of what an instance's accesses ask for, but those of A and B where
/// they are copied first (`pads`). Error: invalid_argument.
[[nodiscard]] Status check_alignment(const GemmProblem& problem, const CudaGemmResources& facts,
                                     const GemmArguments& arguments, bool pads = false);

/// What a kernel reads of a problem and a call whose alpha is not 0: scales, splits and the flags of a launch are the
/// plan's.
[[nodiscard]] TsCudaGemmArgs cuda_gemm_arguments(const GemmProblem& problem, const GemmArguments& arguments);

/// The swizzle of rows of 16, 32, 64 or 128 bytes: none, or that of so many.
[[nodiscard]] TensorMapSwizzle swizzle_of(int row_bytes);

/// The maps of D and of the tensor that comes with it, where the instance has them.
[[nodiscard]] Status encode_result_maps(const CudaContext& context, const GemmProblem& problem,
                                        const CudaGemmResources& facts, const Algorithm& algorithm,
                                        const GemmArguments& arguments, TsCudaGemmMaps& maps);

class CudaGemmPlan final : public GemmPlan {
 public:
  /// `zeros` are 16 bytes of zeros on the device, which stand in for A and B where alpha is 0; `split_memory` is null
  /// where blocks share no tiles and nothing is copied; `pad` is the kernel that copies A and B to rows of whole 16
  /// bytes, where the instance asks for such and the problem is unaligned. Errors: unsupported for sizes beyond a
  /// launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<GemmPlan>> make(const GemmProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, const void* zeros,
                                                              CudaSplitMemory* split_memory,
                                                              std::optional<CudaKernel> pad = {});

  [[nodiscard]] Status run(const GemmArguments& arguments, const RunOptions& options) const override;
  /// What run() checks of valid arguments before anything is launched.
  [[nodiscard]] Status check(const GemmArguments& arguments) const {
    return check_alignment(problem(), facts_, arguments, pad_.has_value());
  }

 private:
  CudaGemmPlan(const GemmProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
               const void* zeros, CudaSplitMemory* split_memory)
      : GemmPlan(problem, std::move(info)),
        steps_(std::move(steps)),
        algorithm_(config.algorithm),
        facts_(cuda_gemm_resources(config)),
        zeros_(zeros),
        split_memory_(split_memory) {}

  [[nodiscard]] TsCudaGemmArgs kernel_arguments(const GemmArguments& arguments) const;
  void add_scales(const GemmArguments& arguments, TsCudaGemmArgs& out) const;
  [[nodiscard]] Status encode_weights(const GemmArguments& arguments, TsCudaTensorMap& map) const;
  /// Whether the last, cut tiles of rows and columns have maps of their own.
  [[nodiscard]] bool has_edges() const;
  /// Queues the copies of what is not aligned of A and B to `memory`, and puts them in its place.
  [[nodiscard]] Status pad(GemmArguments& arguments, std::byte* memory, cu::Stream stream) const;
  [[nodiscard]] Status encode_maps(const GemmArguments& arguments, TsCudaGemmMaps& maps) const;

  CudaSteps steps_;
  Algorithm algorithm_;
  CudaGemmResources facts_;
  const void* zeros_;
  CudaSplitMemory* split_memory_;
  CudaSplitMemory::Size split_size_;
  std::optional<CudaKernel> pad_;
  CudaGemmPadding padding_;
  std::size_t padding_at_ = 0;  ///< bytes from the partials to A and B as they are copied
  int sms_ = 1;
  std::size_t sums_at_ = 0;  ///< words from the counters to sums that partials are added to; 0: partials are kept apart
  int splits_ = 1, band_ = 1;
  bool b_first_ = false;
  bool next_at_end_ = false;
};

}  // namespace tilesmith
