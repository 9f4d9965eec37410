// How long a CUDA attention-backward recipe should take: three launches, the rows' passes through memory, and blocks of
// keys over the SMs at the row's share of the chip's peak.
#pragma once

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds on the spec's reference chip, whose figures may be those of the device at hand. `row` is the row of the tile
/// table that the config of the products was made from.
[[nodiscard]] double predicted_seconds(const KernelConfig& products, const CudaBackwardTile& row, const CudaSpec& spec,
                                       const AttentionBackwardProblem& problem);

}  // namespace tilesmith
