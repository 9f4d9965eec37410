// The micro-tile on vector registers: kRows rows of packed A by a panel of B. The tail of either has its own, smaller
// body, because padding would be computed like the rest.

// How long before it is needed B is asked for. Intel's cores gain 3 to 5 % by it.
constexpr int kStepsAhead = kPack == 1 ? 16 : 0;

template <int kCount, int kVectors>
TS_INLINE void multiply_tile_of(const MicroTile& t) {
  Sum c[kCount][kVectors];
  const bool first = t.first;
#pragma GCC unroll 32
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) c[r][v] = fresh_zero<Sum>();
  }
  multiply(c, t.a, t.a_stride, 1, t.b, kVectors * kLanes, t.words, kStepsAhead);
#pragma GCC unroll 32
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* to = t.sums + r * kPanel + v * kLanes;
      Sum sum = c[r][v];
      if constexpr (kOffset) sum = sum + load_sum(t.start + v * kLanes);
      if (!first) sum = sum + load_sum(to);
      store_sum(to, sum);
    }
  }
}

template <int kVectors>
[[gnu::noinline]] void multiply_tile_by(const MicroTile& t) {
  if (t.rows > kRows / 2) {
    multiply_tile_of<kRows, kVectors>(t);
  } else {
    multiply_tile_of<kRows / 2, kVectors>(t);
  }
}

TS_INLINE void multiply_tile(const MicroTile& t) {
  if (t.width == 3 * kLanes) return multiply_tile_by<3>(t);
  if (t.width == 2 * kLanes) return multiply_tile_by<2>(t);
  multiply_tile_by<1>(t);
}
