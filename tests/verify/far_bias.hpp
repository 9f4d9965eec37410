// Biases far from 0 beside scores of zero, and small ones that give the same weights: float32 has no fraction there, so
// a reference that has one must be asked about the small ones.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "verify/random_attention.hpp"

namespace tilesmith {

/// What padding masks are written with, and other numbers whose last place is no fraction.
inline constexpr float kFarBiases[] = {-1e9F, -1e10F, -1e12F, -1e8F, -1e38F, 1e9F, 1e12F};

/// Gives a problem with a bias the scale 0 and rows that have `far` for all keys, for some, for one, or for those that
/// are not hidden, and ordinary ones. Returns the biases that mean the same. The lse does not.
inline std::vector<float> make_far(RandomAttention& problem, float far) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  problem.tensors.scale = 0;
  std::vector<float> same = problem.bias;
  const auto keys = static_cast<std::size_t>(problem.tensors.seqlen_k);
  for (std::size_t at = 0; at < same.size(); ++at) {
    const std::size_t kind = at / keys % 5, key = at % keys;
    const bool is_far =
        kind == 0 || (kind == 1 && key % 3 == 1) || (kind == 2 && key + 1 == keys) || (kind == 3 && key % 2 == 0);
    if (is_far) {
      problem.bias[at] = far;
      same[at] = far > 0 || kind == 0 || kind == 3 || keys == 1 ? 0.0F : kHidden;
    } else if (kind == 3) {
      problem.bias[at] = same[at] = kHidden;
    } else if (far > 0 && kind < 3) {
      same[at] = kHidden;
    }
  }
  return same;
}

}  // namespace tilesmith
