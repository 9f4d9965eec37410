// What an attention instance is predicted to take on an AMD GPU.
#pragma once

#include "spec/hip/spec.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept, of the problem's signature.
[[nodiscard]] double predicted_seconds(const KernelConfig& config, const HipSpec& spec,
                                       const AttentionProblem& problem);

}  // namespace tilesmith
