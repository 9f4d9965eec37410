// Sections of heads in attention backward on CUDA: heads that are walked together, and the gradients of scores that
// pass through memory from one section's blocks of keys to its blocks of queries.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention_backward.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The wanted number of heads, or up to a third more or fewer, so that sections of `heads` are alike: behind a mask a
/// small last one keeps few blocks busy.
[[nodiscard]] std::int64_t even_section(std::int64_t wanted, std::int64_t heads);

/// How a call's gradients of scores pass through the workspace
/// (kernels/cuda/attention/backward/rows/score_gradients.cuh).
struct PassedGradients {
  std::int64_t section_heads = 0;  ///< of keys
  std::int64_t sections = 0;
  std::int64_t key_blocks = 0;  ///< items of a head of keys
  std::int64_t tile_bytes = 0;  ///< of the gradients
  std::int64_t counts = 0;      ///< of what is done, 4 bytes each
  double efficiency = 0;        ///< of the spec; of calls, too, that could pass them and are faster without

  [[nodiscard]] bool any() const { return section_heads > 0; }
};

/// None where the products cannot pass them, the spec has no figures for it, the gradients take more memory than it
/// grants, or few items of keys would keep all others waiting.
[[nodiscard]] PassedGradients passed_gradients(const AttentionBackwardProblem& problem, const KernelConfig& products,
                                               const CudaSpec& spec);

}  // namespace tilesmith
