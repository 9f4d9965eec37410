// Tensor maps of pixels for halo tiles.
#pragma once

#include "kernels/cuda/common/tensor_map.h"
#include "runtime/cuda/context.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// Boxes of `rows` x `columns` pixels of an image, `step` apart, by 64 channels: {channels of all groups, width,
/// height, images}, with `has_slices` slices before images, of which a box has one. `channels` are a group's, `size`
/// the image's pixels.
[[nodiscard]] Status encode_halo_map(const CudaContext& context, const ConvProblem& problem, const void* data,
                                     const ConvStrides& strides, std::int64_t channels, const ConvSpatial& size,
                                     int columns, int rows, int step, TsCudaTensorMap& map, bool has_slices = false);

}  // namespace tilesmith
