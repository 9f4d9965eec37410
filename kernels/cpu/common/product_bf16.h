// A multiplication step on bf16 pairs: c += low(a) low(b) + high(a) high(b). As inline assembly g++ 12 spills the sums
// (160 instead of 195 GFLOP/s), so it gets its builtin, whose operand type changed with g++ 13; clang's changed too,
// but it keeps the assembly's operands in registers.
#if defined(__clang__)
TS_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
#else
#if __GNUC__ >= 13
typedef __bf16 PairVec __attribute__((vector_size(64)));
#else
typedef short PairVec __attribute__((vector_size(64)));
#endif
TS_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
  return __builtin_ia32_dpbf16ps_v16sf(c, (PairVec)a, (PairVec)b);
}
#endif
