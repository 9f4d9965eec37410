// Attention backward on CUDA where a head of keys has one block of them.
#pragma once

#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Whether the products round and store dq themselves: no other block of keys adds to it, and they walk every tile of
/// queries, since each query sees a key. Packed sequences, whose lengths only the call knows, may have none.
[[nodiscard]] bool products_store_dq(const AttentionBackwardProblem& problem, const KernelConfig& products);

}  // namespace tilesmith
