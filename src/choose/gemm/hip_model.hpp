// What a GEMM instance is predicted to take on an AMD GPU, from the public figures of the chip. Nothing of it was
// measured: no AMD GPU was at hand.
#pragma once

#include "spec/hip/spec.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept, of the problem's signature; D is row-major.
[[nodiscard]] double predicted_seconds(const KernelConfig& config, const HipSpec& spec, const GemmProblem& problem);

}  // namespace tilesmith
