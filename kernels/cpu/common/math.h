// Elementary functions on vectors: exp2's polynomial, log2 and tanh.

TS_INLINE Vec select(IVec mask, Vec yes, Vec no) {
  return mask ? yes : no;
}

TS_INLINE Vec magnitude(Vec x) {
  return (Vec)((IVec)x & 0x7fffffff);
}

// 2^f for |f| <= 1/2: minimax polynomials with relative errors 7.5e-5, 2.7e-6 and 2.0e-7 for degrees 3, 4 and 5.
template <int kDegree>
TS_INLINE Vec exp2_polynomial(Vec f) {
  static_assert(kDegree >= 3 && kDegree <= 5);
  if constexpr (kDegree == 3) {
    return ((0.055171669f * f + 0.242611122f) * f + 0.693260985f) * f + 0.999928074f;
  } else if constexpr (kDegree == 4) {
    return (((0.009570102f * f + 0.055917860f) * f + 0.240247448f) * f + 0.693121815f) * f + 0.999999261f;
  } else {
    return ((((0.001327647f * f + 0.009675541f) * f + 0.055507133f) * f + 0.240221197f) * f + 0.693146967f) * f +
           1.000000072f;
  }
}
