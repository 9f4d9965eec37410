// The micro-tile on vector registers: kRows rows of A by a panel of B. The tail of either has its own, smaller body,
// because padding would be computed like the rest.

// How long before it is needed B is asked for. Intel's cores gain 3 to 5 % by it.
constexpr int kStepsAhead = kPack == 1 ? 16 : 0;

template <int kCount, int kVectors>
[[gnu::noinline]] void multiply_tile_of(const MicroTile& t) {
  Sum c[kCount][kVectors];
  const bool first = t.first;
#pragma GCC unroll 32
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) c[r][v] = fresh_zero<Sum>();
  }
  const int last = t.columns - (kVectors - 1) * kLanes;  // of the last vector, what exists
  const float* const a = t.a;
  const long long a_row = t.a_stride, a_step = kRowA ? 1 : t.a_step;
  const auto word_of_a = [&](int r, long long k) { return a[r * a_row + k * a_step]; };
  if constexpr (kWordsAreB) {
    const int lanes = t.in_place ? last : kLanes;
    multiply(c, word_of_a, t.b, t.b_step, t.words, kStepsAhead, [&](const float* from, int v) {
      return v < kVectors - 1 || !kMasks ? load(from) : words_along_part<Element::fp32>(from, lanes);
    });
  } else {
    multiply(c, word_of_a, t.b, kVectors * kLanes, t.words, kStepsAhead);
  }
#pragma GCC unroll 32
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kOffset) c[r][v] = c[r][v] + load_sum(t.start + v * kLanes);
      if (!first) c[r][v] = c[r][v] + load_sum(t.sums + r * kPanel + v * kLanes);
    }
  }
  if (kPlain && t.d.to != nullptr) {
    if constexpr (!kInteger) {
      if (t.d.factor != 1) {
#pragma GCC unroll 32
        for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) c[r][v] = c[r][v] * t.d.factor;
        }
      }
    }
#pragma GCC unroll 32
    for (int r = 0; r < kCount; ++r) {
      if (!kExactRows && r >= t.rows) break;
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) put_plain(t.d, r, v, c[r][v], v < kVectors - 1 ? kLanes : last);
    }
    return;
  }
#pragma GCC unroll 32
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store_sum(t.sums + r * kPanel + v * kLanes, c[r][v]);
  }
}

// Bodies of every number of rows, or of all rows and of half of them.
template <int kCount, int kVectors>
TS_INLINE void multiply_tile_by(const MicroTile& t) {
  constexpr int kLess = kExactRows ? kCount - 1 : kCount == kRows ? kRows / 2 : 0;
  if constexpr (kLess > 0) {
    if (t.rows <= kLess) return multiply_tile_by<kLess, kVectors>(t);
  }
  multiply_tile_of<kCount, kVectors>(t);
}

TS_INLINE void multiply_tile(const MicroTile& t) {
  if (t.width == 3 * kLanes) return multiply_tile_by<kRows, 3>(t);
  if (t.width == 2 * kLanes) return multiply_tile_by<kRows, 2>(t);
  multiply_tile_by<kRows, 1>(t);
}
