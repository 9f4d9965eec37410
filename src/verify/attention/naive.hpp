// Attention forward as a straightforward framework program computes it: whole logits and weights are stored in the
// tensors' own precision, sums run in fp32. Its error is the yardstick of check R (a fused kernel must not be much
// worse than this), its time the one of benches.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "verify/attention/tensors.hpp"

namespace tilesmith {

/// The output, output_rows x head_dim_v, rounded to `output_type`. fp8 stores its logits in bf16, and its weights in
/// fp8 before they are normalised: normalised ones would vanish beyond a thousand keys. threads = 0: as many as the
/// machine has.
[[nodiscard]] Result<std::vector<float>> naive_attention(const AttentionTensors& tensors, ElementType output_type,
                                                         unsigned threads = 0);

}  // namespace tilesmith
