// Attention forward as a simple framework program computes it: all logits and weights are stored in the tensors' own
// type, sums are fp32. Its error is the yardstick of check R: a fused kernel must not be much worse. A sweep can time
// it for comparison.
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
