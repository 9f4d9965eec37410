// What Composable Kernel's attention instances are predicted to take, from the public figures of the chip. Nothing of
// it was measured: no AMD GPU was at hand.
#pragma once

#include <cstdint>

#include "spec/amd/facts.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// Whether the instance has the pipeline of two groups of waves.
[[nodiscard]] bool is_ck_v3(const KernelConfig& config);

/// The work of one kernel whose blocks walk over blocks of keys or of queries.
struct CkAttentionWork {
  std::int64_t blocks = 0;     ///< that the grid has
  double steps = 0;            ///< blocks of the other side that each walks over, on average
  double flops_of_step = 0;    ///< of the matrix unit
  double scores_of_step = 0;   ///< that pass through the exponential
  double local_of_step = 0;    ///< bytes read from local memory, by all waves
  double fetched_of_step = 0;  ///< bytes that come through the cache
  double memory_bytes = 0;     ///< of the whole kernel, each byte once
  int blocks_per_cu = 1;
  double busy_share = 1;  ///< of a unit's SIMDs that the waves of its blocks keep busy
};
[[nodiscard]] double seconds_of(const CkAttentionWork& work, const ReferenceChip& chip, DataType type);

/// Of a recipe that computes the problem.
[[nodiscard]] double predicted_seconds(const Recipe& recipe, const CkFacts& facts, const AttentionProblem& problem);

}  // namespace tilesmith
