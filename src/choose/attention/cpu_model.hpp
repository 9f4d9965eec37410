// How long a CPU attention instance should take. The model counts clock cycles and turns them into seconds at the
// level's nominal clock.
//
// A flash tile of m queries (of several heads, where those share keys and are short) and blocks of n keys:
//   products   at the instruction's rate, of all rows of the tile and the keys that its strips of queries walk over
//   softmax    of the same pairs
//   staging    keys and values of the tile are converted and interleaved once
//   rows       queries are packed, outputs turned back
//   rescale    what a strip has for each block
// A decode task of up to eight rows that share keys: a product for each row, a load for all, softmax, rows.
// Whole tasks per thread are counted, since that is what runs. Part of the time that the tensors' bytes take to pass
// through memory comes on top; the time is never less than that.
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
