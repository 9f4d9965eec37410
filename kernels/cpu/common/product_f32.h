// A multiplication step on float words.
TS_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
  return a * b + c;
}
