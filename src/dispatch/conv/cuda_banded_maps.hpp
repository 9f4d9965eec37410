// The tensor maps of a call of a banded kernel (kernels/cuda/conv/banded/abi.h).
#pragma once

#include "kernels/cuda/conv/banded/abi.h"
#include "runtime/cuda/tensor_map.hpp"
#include "tilesmith/conv.hpp"

namespace tilesmith {

/// `taps` and `images` of a tile: the kernel's. Error: invalid_argument for tensors that maps cannot describe.
[[nodiscard]] Status encode_banded_maps(const CudaContext& context, const ConvProblem& problem,
                                        const ConvArguments& call, int taps, int images, TsCudaConvBandedMaps& maps);

}  // namespace tilesmith
