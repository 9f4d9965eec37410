// The micro-kernel on vector registers: c += a b, where a's words are broadcast one by one as they lie in memory and
// b's columns run along the lanes. One micro-tile keeps kRows x kVectors sums in registers.

// Zero as a value of its own: sums that start from one shared zero register are spilled by g++ 12.
template <class Sum = Vec>
TS_INLINE Sum fresh_zero() {
  Sum x = {};
  asm("" : "+v"(x));
  return x;
}

// `ahead`: steps after which b is prefetched for, or 0.
// c[r][v] += sum over `steps` of a(r, k) * b[k * b_step + v * kLanes ...]; load_b(from, v) loads vector v of these.
template <int kRows, int kVectors, class Sum, class A, class LoadB>
TS_INLINE void multiply(Sum (&c)[kRows][kVectors], const A& a, const float* b, long long b_step, int steps, int ahead,
                        const LoadB& load_b) {
  for (long long k = 0; k < steps; ++k) {
    Vec x[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) x[v] = load_b(b + v * kLanes, v);
    if (ahead > 0) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) asm volatile("prefetcht0 %0" : : "m"(b[ahead * b_step + v * kLanes]));
    }
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      const Vec y = splat(a(r, k));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) c[r][v] = multiply_add(y, x[v], c[r][v]);
    }
    b += b_step;
  }
}

template <int kRows, int kVectors, class Sum, class A>
TS_INLINE void multiply(Sum (&c)[kRows][kVectors], const A& a, const float* b, int b_step, int steps, int ahead) {
  multiply(c, a, b, b_step, steps, ahead, [](const float* from, int) { return load(from); });
}

// Of rows a_row apart, whose words are a_step apart.
template <int kRows, int kVectors, class Sum>
TS_INLINE void multiply(Sum (&c)[kRows][kVectors], const float* a, long long a_row, int a_step, const float* b,
                        int b_step, int steps, int ahead = 0) {
  multiply(
      c, [&](int r, long long k) { return a[r * a_row + k * a_step]; }, b, b_step, steps, ahead);
}
