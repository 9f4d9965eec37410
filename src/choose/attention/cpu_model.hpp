// How long a CPU attention instance should take. The model counts clock cycles and turns them into seconds at the
// level's nominal clock.
//
// Per visible pair of a flash tile of m queries and n keys, on L fp32 lanes, head dims d = head_dim_qk + head_dim_v:
//   products   2 d / (operations a cycle of the instruction)
//   softmax    the exponential and its surroundings, about kSoftmaxCycles vector instructions for L pairs
//   blocks     K and V of a block are converted or interleaved once per tile: d kConvertCycles / (L m)
//   rescale    accumulators are rescaled once per block: head_dim_v kRescaleCycles / (L n)
// and whole tiles, whole blocks and whole tasks per thread are counted, since that is what runs. Where the bytes of the
// tensors take longer to pass through memory, that time counts.
#pragma once

#include <cstdint>

#include "spec/cpu/spec.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Seconds a kernel of a level should take on so many threads.
[[nodiscard]] double predicted_seconds(const AttentionProblem& problem, const KernelConfig& config, const CpuSpec& spec,
                                       int threads);

/// Pieces a decode kernel cuts the keys into, so that every thread has work: 1 for other pipelines.
[[nodiscard]] std::int64_t splits_for(const AttentionProblem& problem, const KernelConfig& config, int threads);

}  // namespace tilesmith
