// The kernel families of attention backward.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

/// Whether a kernel is of attention backward.
[[nodiscard]] inline bool is_attention_backward(const KernelConfig& config) {
  if (config.operation() != Operation::attention) return false;
  const AttentionFamily family = config.attention().family;
  return family == AttentionFamily::bwd_dot_do_o || family == AttentionFamily::bwd_dq_dk_dv ||
         family == AttentionFamily::bwd_convert_dq || family == AttentionFamily::bwd_dbias;
}

}  // namespace tilesmith
