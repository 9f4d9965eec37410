// The activations of GPU kernels' epilogues, in float32, from what every GPU has: 2^x and 1/x within a few units in the
// last place (exp2_approx, rcp_approx), fmaf, and max_nan, which keeps a NaN. The backend's own header defines these,
// kLog2e and TS_DEVICE, and its types say bytes_of(cfg::kTypeD).
#pragma once

namespace ts::gemm {

TS_DEVICE float sigmoid(float x) {
  return rcp_approx(1.0f + exp2_approx(-kLog2e * x));
}
// tanh within about 1e-7; large |x| saturate to +-1 through exp2's 0 and infinity.
TS_DEVICE float tanh_exact(float x) {
  return 1.0f - 2.0f * rcp_approx(exp2_approx(x * (2.0f * kLog2e)) + 1.0f);
}
// The normal distribution's integral up to -t, t >= 0, as 2 to a polynomial: its logarithm is almost a parabola. The
// coefficients are minimax fits for t <= 5.5; beyond, where the integral is below 2e-8, the polynomials fall on.
// Relative errors: 5e-6, for float32 outputs 2e-6, where half of it is the arithmetic's.
TS_DEVICE float normal_tail(float t) {
  if constexpr (bytes_of(cfg::kTypeD) < 4) {
    float p = fmaf(-1.79345352e-06f, t, 6.09041454e-05f);
    p = fmaf(p, t, -0.000926028821f);
    p = fmaf(p, t, 0.00849375688f);
    p = fmaf(p, t, -0.0539378449f);
    p = fmaf(p, t, -0.458480507f);
    p = fmaf(p, t, -1.15124679f);
    return exp2_approx(fmaf(p, t, -0.99999547f));
  } else {
    float p = fmaf(-1.77729458e-08f, t, 5.61940681e-07f);
    p = fmaf(p, t, -7.62258105e-06f);
    p = fmaf(p, t, 5.58965039e-05f);
    p = fmaf(p, t, -0.000204567448f);
    p = fmaf(p, t, -0.000166469661f);
    p = fmaf(p, t, 0.00716666039f);
    p = fmaf(p, t, -0.0526040867f);
    p = fmaf(p, t, -0.459160954f);
    p = fmaf(p, t, -1.15111256f);
    return exp2_approx(fmaf(p, t, -0.999999821f));
  }
}
// x times the normal distribution's integral up to x. Beyond 16 the tail is 0 in float32.
TS_DEVICE float gelu(float x) {
  const float t = fminf(fabsf(x), 16.0f);
  return fmaf(-t, normal_tail(t), max_nan(x, 0.0f));
}
// x (1 + tanh u) / 2 = x sigmoid(2 u), which adds no almost opposite numbers where x is negative.
TS_DEVICE float gelu_tanh(float x) {
  constexpr float kTwice = 2.0f * 0.79788456080286536f;
  return x * sigmoid(x * fmaf(kTwice * 0.044715f * x, x, kTwice));
}

}  // namespace ts::gemm
