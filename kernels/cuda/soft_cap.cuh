// The soft cap: scores to sigmoid(2 x) = (1 + tanh(x)) / 2 with x = scale * score / softcap. The capped logit is
// softcap * (2 * sigmoid - 1): the factor goes to the exponential (logit_unit) and the constant to the lse.
//
// tanh.approx.f32 errs by 2^-11, which a cap of 30 turns into 1.5% of a probability. An exp2 and a reciprocal err by
// 2e-7, but would be two more operations of the special-function unit, which the softmax keeps busy already at 16
// results a clock. So four scores of a row share one reciprocal, that of the product of their denominators.
#pragma once

#include "softmax.cuh"

namespace ts {

// `inner` is what turns a score into x; not zero, for a masked score is infinite. A NaN among four scores makes all
// four NaN: hidden scores are masked before.
TS_DEVICE void soft_cap(float inner, float (&s)[kScores]) {
  static_assert(kScores % 8 == 0, "whole pairs of 8-column tiles");
  const float exponent = inner * (-2.0f * kLog2e);
#pragma unroll
  for (int i = 0; i < kScores; i += 8) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float &a = s[i + 2 * row], &b = s[i + 2 * row + 1], &c = s[i + 2 * row + 4], &d = s[i + 2 * row + 5];
      // At most 2^30 each, so that the product of four is a float.
      const float da = exp2_approx(min_nan(a * exponent, 30.0f)) + 1.0f;
      const float db = exp2_approx(min_nan(b * exponent, 30.0f)) + 1.0f;
      const float dc = exp2_approx(min_nan(c * exponent, 30.0f)) + 1.0f;
      const float dd = exp2_approx(min_nan(d * exponent, 30.0f)) + 1.0f;
      const float ab = da * db, cd = dc * dd;
      const float inverse = rcp_approx(ab * cd);
      const float inverse_ab = inverse * cd, inverse_cd = inverse * ab;
      a = inverse_ab * db;
      b = inverse_ab * da;
      c = inverse_cd * dd;
      d = inverse_cd * dc;
    }
  }
}

}  // namespace ts
