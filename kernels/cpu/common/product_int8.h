// A multiplication step on fours of 8-bit integers, a's without and b's with sign: c += sum of a[i] b[i], modulo 2^32.
// g++ spills sums that inline assembly changes in place, so it gets its builtin.
#if defined(__clang__)
TS_INLINE IVec multiply_add(Vec a, Vec b, IVec c) {
  asm("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
#else
TS_INLINE IVec multiply_add(Vec a, Vec b, IVec c) {
  return __builtin_ia32_vpdpbusd_v16si(c, (IVec)a, (IVec)b);
}
#endif
