#include "verify/tolerance.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tilesmith {
namespace {

// Hopper's tensor cores keep 13 to 14 bits of a sum of 8-bit products (DeepSeek-V3, arXiv:2412.19437, 3.3.2; measured
// here on an H200: docs/cuda_kernels.md).
constexpr double kFp8Sums = 0x1p-13;
constexpr double kFp8Terms = 32;  // that one instruction adds up; a sum is rounded once in so many

// Rounding errors have either sign, so those of many weights add up like their squares: the spread. An error of one
// rounding is at most the unit roundoff and its standard deviation about 0.4 of it; four times the roundoff is ten
// standard deviations, and holds always for up to sixteen weights.
constexpr double kWeightDeviations = 4;

// Logits and sums are fp32: a dot product, a scaling, an exponential, and sums over the keys, each off by a few
// roundings of what they handle. Measured on emulated kernels the largest error stays below a third of this
// (tests/verify/mutation_test.cpp).
constexpr double kLogitRoundings = 8;

// e4m3 rounds what is below 2^-10 to zero, and kernels scale a row's largest weight to 2^6 at least
// (docs/cuda_kernels.md): a share of 2^-16. Twice that, because dropout divides the weights it keeps.
constexpr double kFp8WeightFloor = 0x1p-15;

}  // namespace

Result<AttentionTolerance> attention_tolerance(ElementType input, bool tf32) {
  switch (input) {
    // fp32: the naive computation is as exact as a kernel, so R says nothing and B carries the check. N: relative
    // error 1.4e-5.
    case ElementType::fp32:
      // tf32 has the mantissa of fp16.
      if (tf32)
        return AttentionTolerance{
            .norm_wise = 1e-6, .weight_roundoff = unit_roundoff(ElementType::fp16), .bounded = true};
      return AttentionTolerance{.norm_wise = 1e-10, .weight_roundoff = kFp32Roundoff, .bounded = true};
    // R: FlashAttention's tests allow twice the error of a plain implementation. N: 1e-5 is DeepGEMM's limit for bf16;
    // fp16 rounds eight times finer, and errors enter N squared.
    case ElementType::fp16:
      return AttentionTolerance{.relative_max = 2,
                                .relative_mean = 1.5,
                                .norm_wise = 1e-6,
                                .weight_roundoff = unit_roundoff(ElementType::fp16),
                                .bounded = true};
    case ElementType::bf16:
      return AttentionTolerance{.relative_max = 2,
                                .relative_mean = 1.5,
                                .norm_wise = 1e-5,
                                .weight_roundoff = unit_roundoff(ElementType::bf16),
                                .bounded = true};
    // R: FlashAttention's Hopper tests, 4 for fp8. N: DeepGEMM's 1e-3 for fp8; e5m2 rounds twice as coarsely, its
    // emulated kernels reach 6e-4. Where small weights are flushed to zero depends on how a kernel scales them, so no
    // bound per element.
    case ElementType::fp8e4m3:
      return AttentionTolerance{.relative_max = 4,
                                .relative_mean = 3,
                                .norm_wise = 1e-3,
                                .weight_roundoff = unit_roundoff(ElementType::fp8e4m3),
                                .weight_floor = kFp8WeightFloor,
                                .logit_roundoff = kFp8Sums};
    case ElementType::fp8e5m2:
      return AttentionTolerance{.relative_max = 4,
                                .relative_mean = 3,
                                .norm_wise = 2e-3,
                                .weight_roundoff = unit_roundoff(ElementType::fp8e5m2),
                                .logit_roundoff = kFp8Sums};
    default:
      return fail(ErrorCode::unsupported, fmt::format("there is no tolerance for attention in {}", to_string(input)),
                  "fp32, fp16, bf16, fp8e4m3 or fp8e5m2");
  }
}

Result<GemmTolerance> gemm_tolerance(ElementType input, ElementType output) {
  GemmTolerance tolerance;
  const bool is_fp8 = input == ElementType::fp8e4m3 || input == ElementType::fp8e5m2;
  if (input == ElementType::int8) {
    tolerance.accumulator_roundoff = 0;
  } else if (is_fp8) {
    tolerance.accumulator_roundoff = kFp8Sums / std::sqrt(kFp8Terms);
  } else if (is_floating(input) && input != ElementType::fp64) {
    tolerance.accumulator_roundoff = kFp32Roundoff;
  } else {
    return fail(ErrorCode::unsupported, fmt::format("there is no tolerance for products of {}", to_string(input)),
                "fp32, fp16, bf16, fp8e4m3, fp8e5m2 or int8");
  }
  switch (output) {
    // N: a sum's error enters squared; 1e-10 is a relative error of 1.4e-5. A sum of 8-bit products is rounded once in
    // so many, and like B's its errors add up by their squares (on an H100 they grow with k:
    // docs/log/2026-11-cuda-gemm.md).
    case ElementType::fp32:
      tolerance.norm_wise = is_fp8 ? kFp8Sums * kFp8Sums : 1e-10;
      tolerance.norm_wise_terms = is_fp8 ? kFp8Terms : 0;
      return tolerance;
    // R: a kernel rounds once where the naive computation rounds after every operation. N: as for attention.
    case ElementType::fp16:
      tolerance.norm_wise = 1e-6;
      break;
    case ElementType::bf16:
      tolerance.norm_wise = 1e-5;
      break;
    case ElementType::fp8e4m3:
      tolerance.norm_wise = 2e-3;
      break;
    case ElementType::fp8e5m2:
      tolerance.norm_wise = 8e-3;
      break;
    // Whole numbers: the bound of each element says all.
    case ElementType::int32:
    case ElementType::int8:
      return tolerance;
    default:
      return fail(ErrorCode::unsupported, fmt::format("there is no tolerance for a result in {}", to_string(output)),
                  "fp32, fp16, bf16, fp8e4m3, fp8e5m2, int32 or int8");
  }
  tolerance.relative_max = 1.5;
  tolerance.relative_mean = 1.1;
  return tolerance;
}

double attention_bound(const AttentionTolerance& tolerance, ElementType output, const ElementTerms& terms) {
  const double logits = 1 + terms.magnitude + std::sqrt(static_cast<double>(terms.keys)) / 4;
  return 2 * unit_roundoff(output) * terms.value + smallest_subnormal(output) +
         kWeightDeviations * tolerance.weight_roundoff * terms.spread +
         kLogitRoundings * tolerance.logit_roundoff * logits * (terms.spread + terms.value);
}

double lse_bound(const AttentionTolerance& tolerance, double lse, double magnitude) {
  return 1e-5 + 1e-5 * std::abs(lse) + kLogitRoundings * tolerance.logit_roundoff * magnitude;
}

double product_working_factor(std::int64_t length, double accumulator_roundoff) {
  return 6 * std::sqrt(static_cast<double>(length)) * accumulator_roundoff;
}

double product_hard_factor(std::int64_t length, double accumulator_roundoff) {
  return static_cast<double>(length) * accumulator_roundoff;
}

}  // namespace tilesmith
