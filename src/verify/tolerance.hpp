// How far a kernel's result may be from the float64 reference: one rule for each data type. Every number is derived
// from the type's rounding or names its precedent. docs/verification.md explains the checks.
#pragma once

#include <cstdint>

#include "base/element_type.hpp"
#include "base/error.hpp"

namespace tilesmith {

/// Half a unit in the last place of fp32, relative.
inline constexpr double kFp32Roundoff = 0x1p-24;
/// Check R compares errors over groups of so many rows: enough samples of about one size.
inline constexpr std::int64_t kGroupRows = 16;

/// Attention forward on inputs of one type.
struct AttentionTolerance {
  /// Check R: largest and mean error over those of the naive computation; 0: the check does not apply.
  double relative_max = 0, relative_mean = 0;
  /// Check N: |x - y|^2 / (|x|^2 + |y|^2) of a head.
  double norm_wise = 0;
  /// What rounding the weights to the type of the values costs, relative.
  double weight_roundoff = 0;
  /// Weights below this share of their row's largest may become zero: the type has no smaller numbers.
  double weight_floor = 0;
  /// The rounding error of the sums that make a logit, relative to their terms.
  double logit_roundoff = kFp32Roundoff;
  /// Whether check B applies: the arithmetic of this type is known well enough to bound every element.
  bool bounded = false;
};

/// The tolerance for inputs of `input`; an error for types attention is not computed in. `tf32`: of fp32 inputs that
/// are tf32 numbers, whose products may round the weights to tf32.
[[nodiscard]] Result<AttentionTolerance> attention_tolerance(ElementType input, bool tf32 = false);

/// What check B needs to know of one output element.
struct ElementTerms {
  double value = 0;       ///< |o|, the reference
  double spread = 0;      ///< sqrt(sum (p v)^2)
  double magnitude = 0;   ///< of the row's logits, see Float64Attention
  std::int64_t keys = 0;  ///< the row sees
};

/// Check B: the largest error of one output element.
[[nodiscard]] double attention_bound(const AttentionTolerance& tolerance, ElementType output,
                                     const ElementTerms& terms);

/// The largest error of one lse: 1e-5 absolute and relative, and what rounding the logits costs.
[[nodiscard]] double lse_bound(const AttentionTolerance& tolerance, double lse, double magnitude);

/// GEMM, from inputs of one type to outputs of one.
struct GemmTolerance {
  double relative_max = 0, relative_mean = 0;  ///< check R, as for attention
  double norm_wise = 0;                        ///< check N of a member of the batch; 0: the check does not apply
  double norm_wise_terms = 0;       ///< N's limit is of sums of so many products, and grows with longer ones; 0: of any
  double accumulator_roundoff = 0;  ///< of the sums; 0: they are exact
};
/// An error for types GEMM is not computed in.
[[nodiscard]] Result<GemmTolerance> gemm_tolerance(ElementType input, ElementType output);

/// The factor g in check B of a plain sum of `length` products: |c - c64| <= u_out |c64| + g sum |a||b|. The working
/// limit is statistical: 6 standard deviations of rounding errors of either sign. The hard limit always holds.
[[nodiscard]] double product_working_factor(std::int64_t length, double accumulator_roundoff);
[[nodiscard]] double product_hard_factor(std::int64_t length, double accumulator_roundoff);

}  // namespace tilesmith
