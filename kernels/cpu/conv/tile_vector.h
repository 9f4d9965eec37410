// The micro-kernel on vector registers.

// How long before it is needed b is asked for, as in GEMM's micro-kernel.
constexpr int kStepsAhead = kPack == 1 ? 16 : 0;

template <int kCount, int kVectors>
inline void multiply_runs(const Rows& a, const float* b, const Run* runs, int count, float* sums, long long sums_row,
                          bool first) {
  Sum c[kCount][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      c[r][v] = first ? fresh_zero<Sum>() : (Sum)load(sums + r * sums_row + v * kLanes);
  }
  for (int i = 0; i < count; ++i)
    multiply<kCount, kVectors>(c, a.words + (long long)runs[i].at * a.step, a.row, a.step,
                               b + runs[i].b * kVectors * kLanes, kVectors * kLanes, runs[i].words, kStepsAhead);
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) store(sums + r * sums_row + v * kLanes, (Vec)c[r][v]);
  }
}

template <int kVectors>
[[gnu::noinline]] void multiply_rows(const Rows& a, int rows, const float* b, const Run* runs, int count, float* sums,
                                     long long sums_row, bool first) {
  if (rows > kRows / 2) return multiply_runs<kRows, kVectors>(a, b, runs, count, sums, sums_row, first);
  return multiply_runs<kRows / 2, kVectors>(a, b, runs, count, sums, sums_row, first);
}

// sums[r][j] (+)= sum over the runs' words of a[r][word] * b[word * width + j], for kRows rows, of which `rows` count,
// and `width` columns.
inline void multiply_tile(const Rows& a, int rows, const float* b, int width, const Run* runs, int count, float* sums,
                          long long sums_row, bool first) {
  if (width == kPanel) return multiply_rows<3>(a, rows, b, runs, count, sums, sums_row, first);
  if (width == 2 * kLanes) return multiply_rows<2>(a, rows, b, runs, count, sums, sums_row, first);
  return multiply_rows<1>(a, rows, b, runs, count, sums, sums_row, first);
}
