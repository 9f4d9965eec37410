// Every NVIDIA GEMM instance whose tile has powers of two for its sides, whatever the tile table holds: to find what
// the table leaves out.
#pragma once

#include "choose/gemm/cuda_shape.hpp"
#include "instances/sink.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// Every instance that the rules accept whose tile has powers of two of 16 to 256 for its sides (of few rows 8 or 16
/// rows): all warps, stages, clusters, ways to share k and widths of access. With a shape, those of them that compute
/// it and are worth a try: a side that is twice a side which holds all of m, n or k is left out.
void exhaustive_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature, const CudaGemmShape* shape,
                          ConfigSink sink);

}  // namespace tilesmith
