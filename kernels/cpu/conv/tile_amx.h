// The micro-kernel on AMX tiles: 32 rows of words as they lie by a panel of 32 columns, in four tiles of sums; the
// lower two are left out where 16 rows do, the right two where the panel is one vector.

// A task's rows in strips of kRows.
struct Strips {
  int rows, count;

  explicit Strips(int all) : rows(all), count((int)blocks_of(all, kRows)) {}
  [[nodiscard]] TS_INLINE int first(int strip) const { return (int)min_of(rows, strip * kRows); }
};

// Whether nothing is filled up.
TS_INLINE bool is_whole_strip(int rows) {
  return rows % 16 == 0;
}

// Sixteen rows, evenly apart.
struct Tile {
  const float* words;
  long long row_bytes;

  TS_INLINE Tile(const PlacedRows& rows, int first)
      : words(rows.place[first] + rows.at),
        row_bytes(reinterpret_cast<long long>(rows.place[first + 1]) - reinterpret_cast<long long>(rows.place[first])) {
  }
};

template <bool kLower, bool kRight>
TS_INLINE void multiply_tiles(const Run<PlacedRows>* runs, int count, int first_row, const float* b, float* sums,
                              long long sums_row, bool first) {
  constexpr int kWidth = kRight ? 2 * kLanes : kLanes;
  const long long sums_bytes = 4 * sums_row;
  float* const lower = sums + 16 * sums_row;
  if (first) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  } else {
    tile_load<0>(sums, sums_bytes);
    if constexpr (kRight) tile_load<1>(sums + 16, sums_bytes);
    if constexpr (kLower) tile_load<2>(lower, sums_bytes);
    if constexpr (kLower && kRight) tile_load<3>(lower + 16, sums_bytes);
  }
  for (int i = 0; i < count; ++i) {
    const Tile upper(runs[i].rows, first_row), under(runs[i].rows, first_row + (kLower ? 16 : 0));
    const float *from = upper.words, *lower_from = under.words, *at = b + runs[i].b * kWidth;
    for (int words = runs[i].words; words > 0;
         words -= kStep, from += kStep, lower_from += kStep, at += kStep * kWidth) {
      tile_load<4>(from, upper.row_bytes);
      tile_load<6>(at, 4 * kWidth);
      tile_dot<0, 4, 6>();
      if constexpr (kRight) {
        tile_load<7>(at + 16, 4 * kWidth);
        tile_dot<1, 4, 7>();
      }
      if constexpr (kLower) {
        tile_load<5>(lower_from, under.row_bytes);
        tile_dot<2, 5, 6>();
        if constexpr (kRight) tile_dot<3, 5, 7>();
      }
    }
  }
  tile_store<0>(sums, sums_bytes);
  if constexpr (kRight) tile_store<1>(sums + 16, sums_bytes);
  if constexpr (kLower) tile_store<2>(lower, sums_bytes);
  if constexpr (kLower && kRight) tile_store<3>(lower + 16, sums_bytes);
}

// As on vector registers; the rows of a tile are evenly apart, and runs are whole steps.
inline void multiply_tile(const Run<PlacedRows>* runs, int count, int first_row, int rows, const float* b, int width,
                          float* sums, long long sums_row, bool first) {
  const bool right = width > kLanes;
  if (rows > 16 && right) return multiply_tiles<true, true>(runs, count, first_row, b, sums, sums_row, first);
  if (rows > 16) return multiply_tiles<true, false>(runs, count, first_row, b, sums, sums_row, first);
  if (right) return multiply_tiles<false, true>(runs, count, first_row, b, sums, sums_row, first);
  return multiply_tiles<false, false>(runs, count, first_row, b, sums, sums_row, first);
}

// Rows that lie otherwise are of vector registers; shared code needs the names alone.
constexpr int kLeastRows = kRows;
constexpr int kScatteredAhead = 0;
template <class Rows>
void multiply_tile(const Run<Rows>* runs, int count, int first_row, int rows, const float* b, int width, float* sums,
                   long long sums_row, bool first);
