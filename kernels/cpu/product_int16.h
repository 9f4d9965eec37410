// A product step on pairs of 16-bit integers: c += low(a) low(b) + high(a) high(b), modulo 2^32. Sums travel as the
// bits of a Vec.
TS_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
  IVec x;
  asm("vpmaddwd %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
  return (Vec)((IVec)c + x);
}
