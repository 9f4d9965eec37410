// From a row of the tile table (specs/cuda, "gemm") to the configs it stands for, rule by rule: what enumeration lists,
// what choosing ranks, and what listings of refused configs show are walks over these.
#pragma once

#include "instances/gemm/cuda.hpp"

namespace tilesmith {

using CudaGemmRule = Rule<CudaGemmSubject>;

/// Whether the row is meant for a signature: groups take the rows that are for groups alone, where a pipeline has some.
[[nodiscard]] bool is_meant_for(const GemmSignature& signature, const CudaGemmPipeline& pipeline,
                                const CudaGemmTile& row);

/// The row's algorithm without widths of access; 0 stages where the row leaves their number open, and of clusters that
/// share a tile by k the most blocks.
[[nodiscard]] Algorithm algorithm_of(const GemmSignature& signature, const CudaGemmPipeline& pipeline,
                                     const CudaGemmTile& row);

// Each of these asks a part of the rules and returns the first one that refuses, or null. They are asked in this order,
// each only where the one before accepted.

/// Gives the config the pipeline, and asks the rules that look at signature and pipeline alone.
[[nodiscard]] const CudaGemmRule* refusal_of_pipeline(KernelConfig& config, const CudaGemmPipeline& pipeline,
                                                      const CudaSpec& spec);
/// For a config with a row's algorithm; asked with the fewest stages where the row leaves them open.
[[nodiscard]] const CudaGemmRule* refusal_of_tile(KernelConfig& config, const CudaSpec& spec);
/// The same for a config that has stages and any widths of access, whose facts these are.
[[nodiscard]] const CudaGemmRule* refusal_of_tile(const KernelConfig& config, const CudaSpec& spec,
                                                  const CudaGemmResources& facts);
/// For a config with widths of access: gives it the row's stages, or as many as fit.
[[nodiscard]] const CudaGemmRule* refusal_of_access(KernelConfig& config, const CudaGemmTile& row,
                                                    const CudaSpec& spec);
/// The same for a config that has the row's stages, or the fewest; its facts become those of the stages it gets.
[[nodiscard]] const CudaGemmRule* refusal_of_access(KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                                                    CudaGemmResources& facts);

/// The row of the tile table that a config was made from; null for a config that was made by hand. Enumeration knows
/// the row and need not ask.
[[nodiscard]] const CudaGemmTile* row_of(const KernelConfig& config, const CudaSpec& spec);

}  // namespace tilesmith
