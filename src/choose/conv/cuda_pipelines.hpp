// What each pipeline of CUDA convolution kernels brings to choosing. A new pipeline is a file beside this one and a
// line in cuda_conv_choosing().
#pragma once

#include <optional>
#include <string>

#include "spec/cuda/spec.hpp"
#include "tilesmith/conv.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaConvChoosing {
  /// Whether a kernel of the pipeline may suit the problem: where not, `unsuited` says why of each.
  bool (*may_suit)(const ConvProblem& problem);
  /// Why a kernel whose signature is the problem's does not suit its sizes, its alignment or its layout; nothing when
  /// it does.
  std::optional<std::string> (*unsuited)(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem);
  /// Whether another kernel with wider accesses, or made for its dimensions, makes this one needless.
  bool (*is_needless)(const KernelConfig& config, const ConvProblem& problem);
  double (*seconds)(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                    const ConvProblem& problem);
};

/// Null for pipelines that convolution does not have.
[[nodiscard]] const CudaConvChoosing* cuda_conv_choosing(Pipeline pipeline);

[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_mma_sm80();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_warp_specialized();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_depthwise();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_grouped();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_halo();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_stem();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_direct();
[[nodiscard]] const CudaConvChoosing& cuda_conv_choosing_pointwise();

}  // namespace tilesmith
