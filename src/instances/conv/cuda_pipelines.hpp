// What each pipeline of CUDA convolution kernels brings to the lists: the rules of its templates, what they take of a
// chip, and the forms in which a row of the tile table comes. A new pipeline is a file beside this one and a line in
// cuda_conv_pipeline().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_resources.hpp"

namespace tilesmith {

struct CudaConvPipeline {
  std::span<const CudaConvRule> rules;
  CudaConvResources (*resources)(const KernelConfig& config);
  /// The algorithms made from a row, those with the widest accesses first.
  std::vector<Algorithm> (*algorithms)(const ConvSignature& signature, const CudaGemmTile& row);
  /// Whether kernels are made for the dimensions of their problem; others for three, of which it may leave some out.
  bool has_own_dimensions = false;
};

/// Null for pipelines that convolution does not have.
[[nodiscard]] const CudaConvPipeline* cuda_conv_pipeline(Pipeline pipeline);

/// Whether tensors are of 16 bits and sizes are run-time numbers, whatever the dimensions; and what a rule says that it
/// is.
[[nodiscard]] bool has_sizes_of_16_bits(const CudaConvSubject& subject);
[[nodiscard]] std::string direction_and_type(const CudaConvSubject& subject);

[[nodiscard]] const CudaConvPipeline& cuda_conv_mma_sm80();
[[nodiscard]] const CudaConvPipeline& cuda_conv_warp_specialized();
[[nodiscard]] const CudaConvPipeline& cuda_conv_depthwise();
[[nodiscard]] const CudaConvPipeline& cuda_conv_grouped();
[[nodiscard]] const CudaConvPipeline& cuda_conv_halo();
[[nodiscard]] const CudaConvPipeline& cuda_conv_stem();
[[nodiscard]] const CudaConvPipeline& cuda_conv_direct();
[[nodiscard]] const CudaConvPipeline& cuda_conv_pointwise();
[[nodiscard]] const CudaConvPipeline& cuda_conv_rowwise();

}  // namespace tilesmith
