// Attention forward in float64, from inputs already rounded to their storage type: what every kernel is compared with.
//
// Each element comes with what its error bound needs (tolerance.hpp): how far its terms spread, and how large the
// logits of its row are.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

struct Float64Attention {
  std::vector<double> o;         ///< output_rows x head_dim_v
  std::vector<double> lse;       ///< output_rows; -inf where a row sees nothing and has no sink
  std::vector<float> spread;     ///< per element of o: sqrt(sum_j (p_ij v_j)^2), p normalised, dropout included; p as
                                 ///< large as fp16's smallest normal number where it is less
  std::vector<float> magnitude;  ///< per row: scale |q| max|k| + max|s|, the size of what fp32 logits round
};

/// threads = 0: as many as the machine has. The result does not depend on it.
[[nodiscard]] Result<Float64Attention> float64_attention(const AttentionTensors& tensors, unsigned threads = 0);

}  // namespace tilesmith
