// log2 and tanh, built on exp2.

// log2 of a positive normal number: x = 2^n m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
TS_INLINE Vec log2(Vec x) {
  const IVec n = ((IVec)x - 0x3f3504f3) >> 23;
  const Vec m = (Vec)((IVec)x - (n << 23));
  const Vec s = (m - 1.0f) / (m + 1.0f);
  const Vec z = s * s;
  const Vec series = ((0.117910743f * z + 0.142686546f) * z + 0.200001672f) * z + 0.333333313f;
  return __builtin_convertvector(n, Vec) + (2 * kLog2E) * (s + s * z * series);
}

// tanh. Near 0 a polynomial, because 1 - e^-2x would cancel there; both are good to about 1e-7 of the result.
TS_INLINE Vec tanh(Vec x) {
  const Vec z = x * x;
  Vec series = -0.00570498779f * z + 0.0206390880f;
  series = (series * z - 0.0537397154f) * z + 0.133314416f;
  const Vec near = x + x * z * (series * z - 0.333332807f);
  const Vec a = magnitude(x);
  const Vec e = exp2<5>(a * (-2 * kLog2E));  // of a negative number: AVX2's exp2 knows no overflow
  const Vec far = (1.0f - e) / (1.0f + e);
  const Vec far_signed = (Vec)((IVec)far | ((IVec)x & (int)0x80000000));
  return select(a < 0.625f, near, far_signed);
}
