// The soft cap of one score: soft_cap * tanh(x) with x = scale * score / soft_cap. Of the backend's own header it needs
// exp2_approx, rcp_approx, min_nan (a minimum that keeps a NaN), fmaf, fabsf and copysignf.
#pragma once

namespace ts {

// What turns a score into x: not zero, for a masked score is infinite.
TS_DEVICE float inner_scale(float scale, float soft_cap) {
  const float inner = scale * rcp_approx(soft_cap);
  return inner == 0.0f ? 1e-30f : inner;
}

// tanh to about 2e-7 of its value: near zero a polynomial, odd in x, else by an exp2 and a reciprocal.
TS_DEVICE float soft_cap_tanh(float x) {
  const float square = x * x;
  float series = fmaf(-0.00570498779f, square, 0.0206390880f);
  series = fmaf(fmaf(series, square, -0.0537397154f), square, 0.133314416f);
  const float near = fmaf(x * square, fmaf(series, square, -0.333332807f), x);
  const float e = exp2_approx(min_nan(fabsf(x) * (2.0f * kLog2e), 64.0f));
  const float far = copysignf(fmaf(-2.0f, rcp_approx(e + 1.0f), 1.0f), x);
  return fabsf(x) < 0.625f ? near : far;
}

}  // namespace ts
