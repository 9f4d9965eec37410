// The end of a row's softmax. Of the backend's own header it needs exp2_approx, log2_approx, rcp_approx and
// rounded_product, which is not fused with an addition.
#pragma once

namespace ts {

// What a row's softmax leaves: the factor its output is multiplied by, and its lse.
struct RowResult {
  float scale;
  float lse;
};

// `peak` is the row maximum in units of log2 (-infinity when the row saw nothing), `sum` the sum of exp2(s - peak) over
// the row. A sink is one more logit of the sum.
template <bool kSink>
TS_DEVICE RowResult finish_row(float peak, float sum, float sink) {
  float scale = 1.0f;
  if constexpr (kSink) {
    if (sum == 0.0f) peak = -kInfinity;
    const float sink2 = rounded_product(sink, kLog2e);
    const float top = fmaxf(peak, sink2);
    if (top > -kInfinity) {
      scale = exp2_approx(peak - top);
      sum = fmaf(sum, scale, exp2_approx(sink2 - top));
      peak = top;
    }
  }
  const bool empty = !(sum > 0.0f) && sum == sum;  // a NaN sum is no empty row
  RowResult r;
  r.scale = empty ? 0.0f : scale * rcp_approx(sum);
  r.lse = empty ? -kInfinity : (peak + log2_approx(sum)) * kLn2;
  return r;
}

}  // namespace ts
