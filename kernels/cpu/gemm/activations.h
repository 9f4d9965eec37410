// Activation functions on vectors. Each keeps NaN, and keeps its limit for arguments of any size.

TS_INLINE Vec keep_nan(Vec x, Vec y) {
  return select(x == x, y, x);
}

// e^-|x|: never overflows, so that both instruction sets' exp2 serve.
TS_INLINE Vec decay(Vec x) {
  return exp2<5>(magnitude(x) * -kLog2E);
}

TS_INLINE Vec sigmoid(Vec x) {
  const Vec e = decay(x);
  return keep_nan(x, select(x < 0.0f, e, splat(1.0f)) / (1.0f + e));
}

// The normal distribution function: below 0 it is exp(-x^2 / 2) P(t), t = 1 / (1 + 0.3 |x|), where P was fitted to
// erfc(|x| / sqrt 2) exp(x^2 / 2) / 2 with a relative error of 5e-8 up to |x| = 10.5; beyond, the exponential is nearly
// 0.
TS_INLINE Vec normal_cdf(Vec x) {
  const Vec a = magnitude(x);
  const Vec t = 1.0f / (1.0f + 0.3f * a);
  Vec p = 0.0374496579f * t - 0.164587498f;
  p = (p * t + 0.219043999f) * t - 0.0652940199f;
  p = (p * t + 0.134613633f) * t + 0.0981491581f;
  p = (p * t + 0.121005282f) * t + 0.119620807f;
  p = p * t - 9.92605578e-7f;
  const Vec tail = exp2<5>(a * a * (-0.5f * kLog2E)) * p;
  return select(x < 0.0f, tail, 1.0f - tail);
}

template <Activation kFunction>
TS_INLINE Vec activate(Vec x) {
  if constexpr (kFunction == Activation::relu) {
    return larger(Vec{}, x);
  } else if constexpr (kFunction == Activation::gelu) {
    return select(x == -kInfinity, Vec{}, x * normal_cdf(x));
  } else if constexpr (kFunction == Activation::gelu_tanh) {
    // x (1 + tanh u) / 2 = x sigmoid(2 u)
    const Vec u2 = x * (1.59576912f + 0.0713548163f * (x * x));
    return select(x == -kInfinity, Vec{}, x * sigmoid(u2));
  } else if constexpr (kFunction == Activation::silu) {
    return select(x == -kInfinity, Vec{}, x * sigmoid(x));
  } else if constexpr (kFunction == Activation::sigmoid) {
    return sigmoid(x);
  } else if constexpr (kFunction == Activation::tanh) {
    return keep_nan(x, tanh(x));
  } else {
    return x;
  }
}
