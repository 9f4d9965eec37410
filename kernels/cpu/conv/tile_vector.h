// The micro-kernel on vector registers.

// How long before it is needed b is asked for, as in GEMM's micro-kernel.
constexpr int kStepsAhead = kPack == 1 ? 16 : 0;

// A micro-tile has a body for each number of rows from half of the most on; fewer are filled up.
constexpr int kLeastRows = kRows / 2;

// A task's rows in strips of at most kRows, as even as can be: where there are several none is filled up.
struct Strips {
  int count, least, longer;  // strips; rows of each, but one more of the first `longer`

  explicit Strips(int rows)
      : count((int)blocks_of(rows, kRows)), least(rows / (int)max_of(count, 1)), longer(rows - least * count) {}
  [[nodiscard]] TS_INLINE int first(int strip) const { return strip * least + (int)min_of(strip, longer); }
};

// Whether nothing is filled up.
TS_INLINE bool is_whole_strip(int rows) {
  return rows >= kLeastRows;
}

constexpr int kScatteredAhead = 12;  // places are readable as far beyond a run

// Rows first .. first + kCount - 1 of a run.
template <int kCount>
struct RowsOfPlaced {
  const float* row[kCount];

  TS_INLINE RowsOfPlaced(const PlacedRows& rows, int first) {
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) row[r] = rows.place[first + r] + rows.at;
  }
  TS_INLINE float operator()(int r, long long k) const {
    return row[r][k];
  }
};
template <int kCount>
struct RowsOfTurned {
  const float* words;
  int step;

  TS_INLINE RowsOfTurned(const TurnedRows& rows, int first) : words(rows.words + first), step(rows.step) {}
  TS_INLINE float operator()(int r, long long k) const { return words[k * step + r]; }
};
struct RowsOfScattered {
  const float* const* place;
  int first;

  // The first row asks for a later word, which no prefetcher of the processor sees coming (3 to 6 %).
  TS_INLINE float operator()(int r, long long k) const {
    if (r == 0) asm volatile("prefetcht0 %0" : : "m"(place[k + kScatteredAhead][first]));
    return place[k][first + r];
  }
};
template <int kCount>
TS_INLINE RowsOfPlaced<kCount> rows_of(const PlacedRows& rows, int first) {
  return {rows, first};
}
template <int kCount>
TS_INLINE RowsOfTurned<kCount> rows_of(const TurnedRows& rows, int first) {
  return {rows, first};
}
template <int kCount>
TS_INLINE RowsOfScattered rows_of(const ScatteredRows& rows, int first) {
  return {rows.place, first};
}

template <int kCount, int kVectors, class Rows>
inline void multiply_runs(const Run<Rows>* runs, int count, int first_row, const float* b, float* sums,
                          long long sums_row, bool first) {
  Sum c[kCount][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      c[r][v] = first ? fresh_zero<Sum>() : (Sum)load(sums + r * sums_row + v * kLanes);
  }
  for (int i = 0; i < count; ++i)
    multiply(c, rows_of<kCount>(runs[i].rows, first_row), b + runs[i].b * kVectors * kLanes, kVectors * kLanes,
             runs[i].words, kStepsAhead);
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) store(sums + r * sums_row + v * kLanes, (Vec)c[r][v]);
  }
}

template <int kCount, int kVectors, class Rows>
[[gnu::noinline]] void multiply_rows(const Run<Rows>* runs, int count, int first_row, int rows, const float* b,
                                     float* sums, long long sums_row, bool first) {
  if constexpr (kCount > kLeastRows) {
    if (rows < kCount)
      return multiply_rows<kCount - 1, kVectors>(runs, count, first_row, rows, b, sums, sums_row, first);
  }
  multiply_runs<kCount, kVectors>(runs, count, first_row, b, sums, sums_row, first);
}

// sums[r][j] (+)= sum over the runs' words of row[first_row + r][word] * b[word * width + j], for `rows` rows (at most
// kRows), filled up to kLeastRows, and `width` columns.
template <class Rows>
inline void multiply_tile(const Run<Rows>* runs, int count, int first_row, int rows, const float* b, int width,
                          float* sums, long long sums_row, bool first) {
  if (width == kPanel) return multiply_rows<kRows, 3>(runs, count, first_row, rows, b, sums, sums_row, first);
  if (width == 2 * kLanes) return multiply_rows<kRows, 2>(runs, count, first_row, rows, b, sums, sums_row, first);
  return multiply_rows<kRows, 1>(runs, count, first_row, rows, b, sums, sums_row, first);
}
