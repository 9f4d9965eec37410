// A launch of a Hopper convolution kernel: GEMM's arguments and maps, but for those of images and filters
// (kernels/cuda/conv/hopper/abi.h).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "choose/conv/cuda_window.hpp"
#include "dispatch/cuda_split_memory.hpp"
#include "dispatch/cuda_steps.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "kernels/cuda/conv/hopper/abi.h"
#include "runtime/cuda/tensor_map.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class CudaWindowPlan final : public ConvPlan {
 public:
  /// `split_memory` is null where no sum is cut. Errors: unsupported for sizes beyond a launch's limits, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<ConvPlan>> make(const ConvProblem& problem, PlanInfo info,
                                                              const KernelConfig& config, const CudaSpec& spec,
                                                              CudaSteps steps, CudaSplitMemory* split_memory);

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override;

 private:
  CudaWindowPlan(const ConvProblem& problem, PlanInfo info, const KernelConfig& config, CudaSteps steps,
                 CudaSplitMemory* split_memory);

  /// `places` places of the windows by `channels` channels.
  [[nodiscard]] Status encode_image(const void* data, const ConvStrides& strides, std::int64_t group_channels,
                                    const std::array<CudaConvWindow, 3>& windows, const TensorMapFormat& format,
                                    std::uint32_t channels, std::uint32_t places, TsCudaTensorMap& map) const;
  /// `channels` channels of x by `filters` channels of y.
  [[nodiscard]] Status encode_filters(const void* data, const ConvStrides& strides, const TensorMapFormat& format,
                                      std::uint32_t channels, std::uint32_t filters, TsCudaTensorMap& map) const;
  [[nodiscard]] TensorMapFormat format_of_slab() const;
  [[nodiscard]] std::uint32_t channels_of_slab() const;

  [[nodiscard]] Status encode_forward(const ConvArguments& arguments, const GemmArguments& results,
                                      TsCudaGemmMaps& maps) const;
  [[nodiscard]] Status encode_phases(const ConvArguments& arguments, const GemmArguments& results,
                                     TsCudaConvPhaseMaps& maps) const;
  [[nodiscard]] Status encode_weight(const ConvArguments& arguments, TsCudaGemmMaps& maps) const;

  CudaSteps steps_;
  Algorithm algorithm_;
  CudaGemmResources facts_;
  CudaSplitMemory* split_memory_;
  CudaSplitMemory::Size split_size_;
  GemmProblem product_;                ///< of places by channels of the result
  std::vector<CudaConvPhase> phases_;  ///< of backward data
  int spatial_dims_;
  std::uint32_t tap_channels_;  ///< of a step, or of 64 columns of backward weight
  int splits_ = 1;
};

}  // namespace tilesmith
