// How a launch of a CUDA GEMM instance divides a problem: parts of k, blocks of the grid, workspace.
//
// Where a function takes a row, it is the row of the tile table that the config was made from (row_of); null for a
// config that was made by hand.
#pragma once

#include <cstdint>

#include "choose/gemm/cuda_shape.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

/// Parts into which an instance that splits k cuts it: as many as should take the least time, up to the row's number
/// and one round of the chip; each has a stage of k. 1 for others.
[[nodiscard]] int cuda_gemm_splits(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                                   const CudaGemmShape& shape);

/// Blocks of a cluster that should share a tile of the config by k: as many as should take the least time, of those a
/// row allows with which all tiles run at a time. 1: the tiles leave no room for that, or k has too few steps.
[[nodiscard]] int cuda_gemm_cluster_k(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                                      const CudaGemmShape& shape);

struct CudaGemmWork {
  std::int64_t items = 0;     ///< tiles, or parts of tiles: at most so many blocks have something to do
  std::int64_t blocks = 0;    ///< of the grid
  int splits = 1;             ///< parts of each tile
  int band = 1;               ///< rows of tiles, or of clusters of them, that are walked side by side
  std::int64_t places = 0;    ///< for parts of tiles, where those are shared; with split_k_atomic for their sums
  std::int64_t counters = 0;  ///< 32-bit words beside them
  bool b_first = false;       ///< of a step, B is asked for before A
  bool late_launch_dependents = false;  ///< the next kernel may start when blocks end, not when they begin
  int placed = 1;                       ///< blocks that the launch begins as a cluster, so that they stand side by side
};
/// `facts` are the config's, and `row` is its own, as ranking knows them.
[[nodiscard]] CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaGemmResources& facts,
                                          const CudaGemmTile* row, const CudaSpec& spec, const CudaGemmShape& shape);
[[nodiscard]] CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                                          const CudaGemmShape& shape);
[[nodiscard]] CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape);

/// Whether blocks share tiles at all in a launch of so much work: k has steps for two parts, or stream-K's last round
/// is not full.
[[nodiscard]] bool cuda_gemm_shares(const KernelConfig& config, const CudaGemmWork& work);

/// Blocks that run at a time, where they are in no clusters.
[[nodiscard]] std::int64_t cuda_gemm_places(const KernelConfig& config, const CudaSpec& spec);
[[nodiscard]] std::int64_t cuda_gemm_places(const CudaGemmResources& facts, const CudaSpec& spec);

/// Clusters that run at a time: of so many blocks, so many of them on an SM.
[[nodiscard]] std::int64_t cuda_gemm_clusters(int blocks, int blocks_per_sm, const CudaSpec& spec);

/// Blocks that a launch of the config begins as a cluster although they share nothing in it (`placed_blocks` of the
/// spec): where all its tiles run at a time so, on more than half of the SMs, and rows of tiles share columns of B.
/// Else 1. `tiles` are cuda_gemm_tiles'.
[[nodiscard]] int cuda_gemm_placed(const KernelConfig& config, const CudaGemmResources& facts, const CudaSpec& spec,
                                   const CudaGemmShape& shape, std::int64_t tiles);

/// Blocks of the config that run at a time, in whole clusters.
[[nodiscard]] std::int64_t cuda_gemm_blocks_at_a_time(const Algorithm& algorithm, const CudaGemmResources& facts,
                                                      const CudaSpec& spec);

}  // namespace tilesmith
