// Trees of drafted tokens: which of its sequence's last keys a query sees, as a bias of attention.
#pragma once

#include <cstdint>

#include "tilesmith/error.hpp"
#include "tilesmith/export.hpp"

namespace tilesmith {

/// With n the queries and L the keys of a sequence, bit t % 32 of word t / 32 of query i says whether it sees key L - n
/// + t, for t from 0 to n - 1. The keys before are visible. All pointers are the host's.
struct TreeMask {
  std::int64_t batch = 1;
  std::int64_t seqlen_q = 1;                   ///< n; of packed queries: the longest
  std::int64_t seqlen_k = 1;                   ///< the longest L
  std::int64_t words = 1;                      ///< of 32 bits for each query: room for n
  const std::uint32_t* bits = nullptr;         ///< (batch, seqlen_q, words); of packed queries (rows of q, words)
  const std::int32_t* cu_seqlens_q = nullptr;  ///< packed queries: batch + 1 offsets; null: n is seqlen_q
  const std::int32_t* seqlens_k = nullptr;     ///< (batch), each L, 0 to seqlen_k; null: L is seqlen_k
};

/// Writes the elementwise bias of the mask, (batch, seqlen_q, seqlen_k), shared by the heads: 0 where a query sees a
/// key, or would not read the place, -inf where the tree hides it. Errors: invalid_argument.
[[nodiscard]] TILESMITH_API Status tree_bias(const TreeMask& mask, float* bias);

}  // namespace tilesmith
