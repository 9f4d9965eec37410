// AVX-512 forms of the operations that need a particular instruction.

TS_INLINE Vec larger(Vec a, Vec b) {  // b where either is NaN
  Vec x;
  asm("vmaxps %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
  return x;
}

TS_INLINE bool any(IVec mask) {
  unsigned short bits;
  asm("vptestmd %1, %1, %0" : "=Yk"(bits) : "v"(mask));
  return bits != 0;
}

// 32 x 32 -> 64 bit multiplication of the even lanes.
TS_INLINE WideVec multiply_even(UVec a, UVec b) {
  WideVec x;
  asm("vpmuludq %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
  return x;
}

// 2^x. Splits x into the nearest integer n and a fraction in [-1/2, 1/2]; scalef restores n and sends -inf to 0.
template <int kDegree>
TS_INLINE Vec exp2(Vec x) {
  Vec n, y;
  asm("vrndscaleps $8, %1, %0" : "=v"(n) : "v"(x));
  const Vec p = exp2_polynomial<kDegree>(x - n);
  asm("vscalefps %2, %1, %0" : "=v"(y) : "v"(p), "v"(n));
  return y;
}

// The bf16 words (low[l], high[l]) of each lane: one conversion of both vectors, then a permutation that interleaves
// them.
TS_INLINE Vec pair_bf16(Vec low, Vec high) {
  typedef short Shorts __attribute__((vector_size(64)));
  constexpr Shorts kInterleave = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  Vec x;
  asm("vcvtne2ps2bf16 %2, %1, %0\n\tvpermw %0, %3, %0" : "=&v"(x) : "v"(high), "v"(low), "v"(kInterleave));
  return x;
}

// The bf16 words of neighbouring lanes: low's lanes, then high's.
TS_INLINE Vec join_bf16(Vec low, Vec high) {
  Vec x;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(x) : "v"(high), "v"(low));
  return x;
}
