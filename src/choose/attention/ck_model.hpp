// What Composable Kernel's attention instances are predicted to take, from the public figures of the chip. Nothing of
// it was measured: no AMD GPU was at hand.
#pragma once

#include "choose/attention/compute_unit_model.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// Whether the instance has the pipeline of two groups of waves.
[[nodiscard]] bool is_ck_v3(const KernelConfig& config);

/// Of a recipe that computes the problem.
[[nodiscard]] double predicted_seconds(const Recipe& recipe, const CkFacts& facts, const AttentionProblem& problem);

}  // namespace tilesmith
