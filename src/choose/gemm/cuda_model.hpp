// How long a CUDA GEMM instance should take: rounds of tiles over the SMs, or the time the matrices take to pass
// through memory. A row of the tile table says what a step of k was measured to take, or which share of the chip's peak
// its kernels reach; of a config without a row the spec gives one share.
#pragma once

#include <span>

#include "choose/gemm/cuda_work.hpp"

namespace tilesmith {

/// Seconds on the spec's reference chip, whose figures may be those of the device at hand; a launch included. `facts`
/// are the config's, `work` is cuda_gemm_work's.
[[nodiscard]] double predicted_seconds(const KernelConfig& config, const CudaGemmResources& facts,
                                       const CudaGemmTile* row, const CudaSpec& spec, const CudaGemmShape& shape,
                                       const CudaGemmWork& work);

/// Seconds of a list of GEMMs in so many launches of a kernel for lists: the tiles of all over the SMs, no shorter than
/// the longest tile, or the time all matrices take to pass through memory.
[[nodiscard]] double predicted_list_seconds(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                                            std::span<const CudaGemmShape> shapes, std::size_t launches);

/// Seconds of one work item: a tile, or one of `splits` parts of it, of which the last adds up all. `facts` are the
/// config's.
[[nodiscard]] double cuda_gemm_item_seconds(const KernelConfig& config, const CudaGemmResources& facts,
                                            const CudaGemmTile* row, const CudaSpec& spec, const CudaGemmShape& shape,
                                            int splits);

/// Whether the rows of A and B, taken for packed, straddle sectors of memory.
struct Straddling {
  bool a, b;
};
[[nodiscard]] Straddling straddling(const GemmSignature& signature, const CudaGemmShape& shape);

}  // namespace tilesmith
