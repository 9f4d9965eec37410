// The signature that an attention problem's kernels have on GPUs of every vendor.
#pragma once

#include "tilesmith/attention.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// The signature of the kernels that carry exactly the problem's traits. A mask bounded on the right alone is causal,
/// one with a left bound generic; the bounds themselves are run-time numbers.
[[nodiscard]] AttentionSignature gpu_signature_of(const AttentionProblem& problem);

}  // namespace tilesmith
