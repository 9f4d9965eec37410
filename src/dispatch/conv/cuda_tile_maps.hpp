// The tensor maps of a call of a kernel that reads whole tiles through them (kernels/cuda/conv/tile_maps.h).
#pragma once

#include "choose/conv/cuda_launch.hpp"
#include "kernels/cuda/conv/tile_maps.h"
#include "runtime/cuda/tensor_map.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// Error: invalid_argument for tensors that maps cannot describe.
[[nodiscard]] Status encode_tile_maps(const CudaContext& context, const ConvProblem& problem, const ConvArguments& call,
                                      const CudaConvMappedTile& tile, TsCudaConvTileMaps& maps);

}  // namespace tilesmith
