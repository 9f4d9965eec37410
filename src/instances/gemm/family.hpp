// What Tilesmith's own GEMM templates have in common, whatever the backend.
#pragma once

#include "vocabulary/signature.hpp"

namespace tilesmith {

/// Dense products with a row-major result: nothing is asked for beside types, orders of A and B, groups, a second
/// product, scales and an epilogue.
[[nodiscard]] inline bool is_plain_gemm(const GemmSignature& signature) {
  GemmSignature plain = signature;  // what is left after the carried fields are reset must be a default signature
  const GemmSignature defaults;
  plain.a = plain.b = plain.c = plain.aux = plain.bias = plain.scale = defaults.a;
  plain.accumulator = defaults.accumulator;
  plain.zero_points = defaults.zero_points;
  plain.grouping = defaults.grouping;
  plain.mm_plus_mm = defaults.mm_plus_mm;
  plain.qscale = defaults.qscale;
  plain.layout_a = defaults.layout_a;
  plain.layout_b = defaults.layout_b;
  plain.epilogue_ops = {};
  return plain == defaults;
}

[[nodiscard]] inline bool is_fp8(DataType type) {
  return type == DataType::fp8 || type == DataType::bf8;
}
/// B holds integer weights of a floating A.
[[nodiscard]] inline bool has_weights(const GemmSignature& g) {
  return (g.a == DataType::fp16 || g.a == DataType::bf16) && (g.b == DataType::int8 || g.b == DataType::int4);
}
/// Blocks of 8-bit floats have scales.
[[nodiscard]] inline bool has_block_scales(const GemmSignature& g) {
  return g.qscale == QuantScale::blockscale;
}
/// Scales along k and groups are those of one product.
[[nodiscard]] inline bool second_fits(const GemmSignature& g) {
  return !g.mm_plus_mm || (g.grouping == GemmGrouping::none && g.qscale == QuantScale::none && !has_weights(g));
}
[[nodiscard]] inline bool is_along_k(const GemmSignature& g) {
  return g.layout_a == MatrixOrder::row && g.layout_b == MatrixOrder::column;
}

/// Whether the scales go with the matrices: along k, fp32 or of weights also A's type, none of another kind; zero
/// points are of weights.
[[nodiscard]] inline bool scales_fit(const GemmSignature& g) {
  const bool weights = has_weights(g);
  if (weights && g.scale != DataType::fp32 && g.scale != g.a) return false;
  if (!weights && (g.scale != GemmSignature{}.scale || g.zero_points)) return false;
  if (g.qscale != QuantScale::none && !(has_block_scales(g) && is_fp8(g.a) && is_fp8(g.b))) return false;
  return is_along_k(g) || (!weights && !has_block_scales(g));
}

}  // namespace tilesmith
