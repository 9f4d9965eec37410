// AVX2 forms of the operations that need a particular instruction.

TS_INLINE Vec larger(Vec a, Vec b) {  // b where either is NaN
  Vec x;
  asm("vmaxps %2, %1, %0" : "=x"(x) : "x"(a), "x"(b));
  return x;
}

TS_INLINE bool any(IVec mask) {
  unsigned bits;
  asm("vmovmskps %1, %0" : "=r"(bits) : "x"(mask));
  return bits != 0;
}

// 32 x 32 -> 64 bit multiplication of the even lanes.
TS_INLINE WideVec multiply_even(UVec a, UVec b) {
  WideVec x;
  asm("vpmuludq %2, %1, %0" : "=x"(x) : "x"(a), "x"(b));
  return x;
}

// 2^x. Adding 1.5 * 2^23 leaves the nearest integer n in the low bits of the sum; n goes into the exponent by an
// integer addition, so x is kept above -126 and what was below becomes an exact 0 afterwards.
template <int kDegree>
TS_INLINE Vec exp2(Vec x) {
  constexpr float kMagic = 12582912.0f;
  const Vec floor = splat(-126.0f);
  const Vec clamped = larger(floor, x);
  const Vec shifted = clamped + kMagic;
  const Vec p = exp2_polynomial<kDegree>(clamped - (shifted - kMagic));
  const IVec y = (IVec)p + ((IVec)shifted << 23);
  return (Vec)(y & ~(x < floor));
}

// There are no pairs without AVX512-BF16; shared code needs the names alone.
template <class V>
V pair_bf16(V low, V high);
template <class V>
V join_bf16(V low, V high);
