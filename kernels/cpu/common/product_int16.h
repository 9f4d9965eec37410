// A multiplication step on pairs of 16-bit integers: c += low(a) low(b) + high(a) high(b), modulo 2^32. (Sums of
// integers are no Vec: g++ would copy every one of them between the two types in each step.)
TS_INLINE IVec multiply_add(Vec a, Vec b, IVec c) {
  IVec x;
  asm("vpmaddwd %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
  return c + x;
}
