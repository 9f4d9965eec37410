// The soft cap: scores to capped logits in units of log2, log2(e) * soft_cap * tanh(x) with x = scale * score /
// soft_cap.
//
// tanh.approx.f32 errs by 2^-11, which a cap of 30 turns into 1.5% of a probability. Two ways are exact enough:
//
//   near  where every |x| of a warp's block is at most 0.35: a polynomial, odd in x, on the multiply-add pipe alone.
//         Its relative error is at most 3e-6, a third of what the lse may be off by.
//   far   by an exp2 and a reciprocal, 2e-7: two more operations of the special-function unit, which the softmax keeps
//         busy already at 16 results a clock. So four scores of a row share one reciprocal, that of the product of
//         their denominators. It is exact to 2e-7 of the cap, not of the logit.
//
// float32 asks for more: there each score takes a longer polynomial or an exp2 and a reciprocal of its own, exact to
// about 2e-7 of the logit.
//
// A warp decides for all its rows: the last bits of a row may depend on the others'.
//
// Logits are bounded by the cap: with a small one bf16 has room for exp2(logit) as it is, and rows need no maximum
// (kMayGoUnshifted).
#pragma once

#include "softmax.cuh"

#include "../../gpu/attention/soft_cap.h"

namespace ts {

// The largest cap for which exp2(+-log2(e) * cap), 2^+-72, leaves room for sums and for multiplying with values.
constexpr float kBoundedCap = 50.0f;
// Only bf16 has the range, and logits are bounded only where no bias is added to them. Dropout lacks the registers.
constexpr bool kMayGoUnshifted =
    cfg::kSoftCap && !cfg::kBias && !cfg::kAlibi && !cfg::kDropout && cfg::kBf16 && !cfg::kFp8;

struct SoftCap {
  float bound;  // scores up to which the polynomial holds
  float series[3];

  TS_DEVICE void start(float scale, float soft_cap) {
    const float inner = inner_scale(scale, soft_cap), square = inner * inner;
    // Outside this range the coefficients or the powers would leave that of float.
    bound = square > 1e-8f && square < 1e8f ? 0.35f * rcp_approx(fabsf(inner)) : -1.0f;
    const float slope = inner * soft_cap * kLog2e;
    series[0] = 0.999997131f * slope;
    series[1] = -0.332909542f * (slope * square);
    series[2] = 0.123950313f * (slope * (square * square));
  }

  // Whether the warp's scores are all near. A NaN is: the polynomial keeps it.
  template <int kCount>
  TS_DEVICE bool is_near(const float (&s)[kCount]) const {
    float largest[4] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) largest[i % 4] = fmaxf(largest[i % 4], fabsf(s[i]));
    const float all = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    return __all_sync(0xffffffffu, all <= bound);
  }

  TS_DEVICE float near(float score) const {
    const float square = score * score;
    return score * fmaf(fmaf(series[2], square, series[1]), square, series[0]);
  }

  // A NaN among four scores makes all four NaN: hidden scores are masked before.
  template <int kCount>
  static TS_DEVICE void far(float scale, float soft_cap, float (&s)[kCount]) {
    static_assert(kCount % 8 == 0, "whole pairs of 8-column tiles");
    const float exponent = inner_scale(scale, soft_cap) * (-2.0f * kLog2e), unit = soft_cap * kLog2e;
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float &a = s[i + 2 * row], &b = s[i + 2 * row + 1], &c = s[i + 2 * row + 4], &d = s[i + 2 * row + 5];
        // At most 2^30 each, so that four of them multiplied are a float.
        const float da = exp2_approx(min_nan(a * exponent, 30.0f)) + 1.0f;
        const float db = exp2_approx(min_nan(b * exponent, 30.0f)) + 1.0f;
        const float dc = exp2_approx(min_nan(c * exponent, 30.0f)) + 1.0f;
        const float dd = exp2_approx(min_nan(d * exponent, 30.0f)) + 1.0f;
        const float ab = da * db, cd = dc * dd;
        const float inverse = 2.0f * unit * rcp_approx(ab * cd);
        const float inverse_ab = inverse * cd, inverse_cd = inverse * ab;
        a = fmaf(inverse_ab, db, -unit);
        b = fmaf(inverse_ab, da, -unit);
        c = fmaf(inverse_cd, dd, -unit);
        d = fmaf(inverse_cd, dc, -unit);
      }
    }
  }

  template <int kCount>
  static TS_DEVICE void exact(float scale, float soft_cap, float (&s)[kCount]) {
    const float inner = inner_scale(scale, soft_cap), unit = soft_cap * kLog2e;
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = unit * soft_cap_tanh(s[i] * inner);
  }

  template <int kCount>
  static TS_DEVICE void apply(float scale, float soft_cap, float (&s)[kCount]) {
    SoftCap cap;
    cap.start(scale, soft_cap);
    if (cap.is_near(s)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] = cap.near(s[i]);
    } else {
      far(scale, soft_cap, s);
    }
  }
};

}  // namespace ts
