// Attention of more queries than keys behind a mask or window that ends at both last ones: the first queries see no
// key. Hopper's tiles of queries leave out those tiles that have no others, and free warps write their zeros
// (kernels/cuda/attention/hopper/hidden_rows.cuh); kernels of other pipelines compute them.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"

namespace tilesmith {

/// Queries of each sequence that see no key, all in front; 0 where sequences differ in length.
[[nodiscard]] std::int64_t hidden_queries(const AttentionProblem& problem);

/// Whether they are tiles, and kernels that leave them out are predicted without them.
[[nodiscard]] bool has_hidden_tiles(const AttentionProblem& problem);

/// The problem of the queries behind them.
[[nodiscard]] AttentionProblem with_seen_queries(AttentionProblem problem);

/// What writing their zeros takes.
[[nodiscard]] double hidden_seconds(const CudaSpec& spec, const AttentionProblem& problem);

}  // namespace tilesmith
