// The source of a CUDA attention-backward kernel: the table of constants that its template reads, then the template of
// kernels/cuda with everything it includes.
#pragma once

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// `config` is one the rules accept (instances/attention_backward/cuda.hpp). As of cuda_attention_source.
[[nodiscard]] Result<Source> cuda_attention_backward_source(const KernelConfig& config);

}  // namespace tilesmith
