// What Tilesmith's own GEMM templates have in common, whatever the backend.
#pragma once

#include "kernel/signature.hpp"

namespace tilesmith {

/// Dense products with a row-major result: nothing is asked for beside types, orders of A and B, and an epilogue.
[[nodiscard]] inline bool is_plain_gemm(const GemmSignature& signature) {
  GemmSignature plain = signature;  // what is left after the carried fields are reset must be a default signature
  const GemmSignature defaults;
  plain.a = plain.b = plain.c = plain.side = plain.bias = defaults.a;
  plain.accumulator = defaults.accumulator;
  plain.layout_a = defaults.layout_a;
  plain.layout_b = defaults.layout_b;
  plain.epilogue_ops = {};
  return plain == defaults;
}

}  // namespace tilesmith
