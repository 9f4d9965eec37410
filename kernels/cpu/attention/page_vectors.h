// Vectorized pages have no rows that could be read where they lie (contract/paged_keys.h): a block's keys and values
// are brought together first, in memory of the thread's own.

constexpr int kVector = 16 / (int)sizeof(Cached);  // elements
typedef Cached CachedVector __attribute__((vector_size(16)));
typedef Cached LooseVector __attribute__((vector_size(16), aligned(1), may_alias));

template <int kMost>
struct GatheredRows {
  alignas(64) Cached keys[kMost * kHeadDimQk], values[kMost * kHeadDimV];
};

template <int... kLane>
struct VectorLanes {};
template <int kCount, int... kLane>
struct LanesBelow : LanesBelow<kCount - 1, kCount - 1, kLane...> {};
template <int... kLane>
struct LanesBelow<0, kLane...> : VectorLanes<kLane...> {};

// The elements of a and b in turn, from element kFirst of each on.
template <int kFirst, int... kLane>
TS_INLINE CachedVector in_turn(CachedVector a, CachedVector b, VectorLanes<kLane...>) {
  return __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * kVector)...);
}

// The transpose of kVector vectors: as many rounds of taking elements in turn as an index has bits.
TS_INLINE void transpose_vectors(CachedVector (&x)[kVector]) {
  constexpr int kHalf = kVector / 2;
#pragma GCC unroll 4
  for (int round = 1; round < kVector; round *= 2) {
    CachedVector y[kVector];
#pragma GCC unroll 8
    for (int i = 0; i < kHalf; ++i) {
      y[2 * i] = in_turn<0>(x[i], x[i + kHalf], LanesBelow<kVector>{});
      y[2 * i + 1] = in_turn<kHalf>(x[i], x[i + kHalf], LanesBelow<kVector>{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kVector; ++i) x[i] = y[i];
  }
}

// Rows row .. row + count - 1 of a head's keys in a page of `size` rows.
inline void gather_keys(const Cached* page, long long size, long long row, int count, Cached* to) {
  for (int j = 0; j < count; ++j)
    for (int c = 0; c < kHeadDimQk; c += kVector)
      *reinterpret_cast<LooseVector*>(to + j * kHeadDimQk + c) =
          *reinterpret_cast<const LooseVector*>(page + c * size + (row + j) * kVector);
}

// Of its values: kVector rows at a time where a vector's are all wanted.
inline void gather_values(const Cached* page, long long row, int count, Cached* to) {
  for (int j = 0; j < count;) {
    const int of_vector = (int)((row + j) % kVector);
    const Cached* from = page + (row + j - of_vector) * kHeadDimV;
    const bool whole = of_vector == 0 && j + kVector <= count;
    const int rows = whole ? kVector : (int)min_of(kVector - of_vector, count - j);
    Cached* rows_to = to + j * kHeadDimV;
    int c = 0;
    for (; whole && c + kVector <= kHeadDimV; c += kVector) {
      CachedVector x[kVector];
#pragma GCC unroll 16
      for (int i = 0; i < kVector; ++i) x[i] = *reinterpret_cast<const LooseVector*>(from + (c + i) * kVector);
      transpose_vectors(x);
#pragma GCC unroll 16
      for (int i = 0; i < kVector; ++i) *reinterpret_cast<LooseVector*>(rows_to + i * kHeadDimV + c) = x[i];
    }
    for (; c < kHeadDimV; ++c)
      for (int i = 0; i < rows; ++i) rows_to[i * kHeadDimV + c] = from[c * kVector + of_vector + i];
    j += rows;
  }
}
