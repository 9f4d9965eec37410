// The five products of a tile, all from words: two whose sums run along the head dimension, three that add to
// gradients. Under a mask, strips and the runs of their sums end where nothing is seen.

// How products are cut: a strip of kRows rows by kVectors vectors of columns keeps its sums in registers.
constexpr int panel_vectors(int vectors) {
  if (kLanes == 16 && vectors % 4 == 0) return 4;
  if (vectors % 3 == 0) return 3;
  return vectors % 2 == 0 ? 2 : 1;
}
template <int kColumns>
struct Panel {
  static constexpr int kVectors = panel_vectors(kColumns / kLanes);
  static constexpr int kRows = kAccumulators / kVectors;
  static constexpr int kWidth = kVectors * kLanes;
  static_assert(kColumns % kWidth == 0 && kTileM % kRows == 0 && kTileN % kRows == 0);
};
constexpr int kQueryRows = Panel<kColumnsQk>::kRows;

// to[i][j] = dot(rows[i], columns[.][j]) where a strip sees a panel of keys. Each strip prefetches some of the next
// tile's rows: a line or less a step, so that nothing waits for it.
template <int kWords, int kRowStride>
inline void dot_products(const Tile& tile, const float* rows, const float* columns, float* to, const NextRows& next) {
  using Cut = Panel<kTileN>;
  constexpr int kStrips = kTileM / Cut::kRows * (kTileN / Cut::kWidth);
  constexpr int kNextRows = (kTileM + kStrips - 1) / kStrips;
  constexpr int kStepBytes = (kWords * kPack * (int)sizeof(Stored) * kNextRows + kWords - 1) / kWords;
  const Stored* prefetched = next.rows;
  for (int j = 0; j < tile.keys; j += Cut::kWidth)
    for (int i = 0; i < tile.rows; i += Cut::kRows) {
      const Bounds seen = tile.keys_of(i, i + Cut::kRows);
      if (seen.end <= j || seen.begin >= j + Cut::kWidth) continue;
      Vec x[Cut::kRows][Cut::kVectors];
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) x[r][v] = fresh_zero();
      }
      for (int part = 0; part < kNextRows; ++part) {
        const int begin = kWords * part / kNextRows, end = kWords * (part + 1) / kNextRows;
        const float* a = rows + i * kRowStride + begin;
        const char* const line = reinterpret_cast<const char*>(prefetched);
        const auto word = [&](int r, long long k) {
          if (r == 0) __builtin_prefetch(line + k * kStepBytes, 0, 2);
          return a[r * kRowStride + k];
        };
        multiply(x, word, columns + begin * kKeyStride + j, kKeyStride, end - begin, 0);
        prefetched += next.stride;
      }
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) store(to + (i + r) * kKeyStride + j + v * kLanes, x[r][v]);
      }
    }
}

// to[r][c] += sum over the steps that the strip of row r has of a[r * kRow + step * kStep] b[step][c]; `steps_of` tells
// them in elements.
template <int kColumns, int kRow, int kStep, int kStride, class StepsOf>
TS_INLINE void add_products(int rows, const float* a, const float* b, float* to, const StepsOf& steps_of) {
  using Cut = Panel<kColumns>;
  for (int c = 0; c < kColumns; c += Cut::kWidth)
    for (int row = 0; row < rows; row += Cut::kRows) {
      const Bounds seen = steps_of(row, row + Cut::kRows);
      if (seen.begin >= seen.end) continue;
      const int begin = seen.begin / kPack, steps = (seen.end + kPack - 1) / kPack - begin;
      Vec x[Cut::kRows][Cut::kVectors];
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) x[r][v] = load(to + (row + r) * kColumns + c + v * kLanes);
      }
      multiply(x, a + row * kRow + begin * kStep, kRow, kStep, b + begin * kStride + c, kStride, steps);
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) store(to + (row + r) * kColumns + c + v * kLanes, x[r][v]);
      }
    }
}

// dv += p^T do and dk += dx^T q.
inline void add_to_keys(const Tile& tile, Scratch& w) {
  const auto queries = [&](int begin, int end) { return tile.queries_of(begin, end); };
  add_products<kColumnsV, 1, kKeyStride, kPairs ? kPairV : kQueryRowV>(tile.keys, pairs_of(w.s, w.p_pairs),
                                                                       pairs_of(w.g, w.g_pairs), w.dv, queries);
  add_products<kColumnsQk, 1, kKeyStride, kPairs ? kPairQk : kQueryRowQk>(tile.keys, pairs_of(w.dp, w.dx_pairs),
                                                                          pairs_of(w.q, w.q_pairs), w.dk, queries);
}

// dq += dx k.
inline void add_to_queries(const Tile& tile, const Scratch& w, float* dq) {
  const auto keys = [&](int begin, int end) { return tile.keys_of(begin, end); };
  add_products<kColumnsQk, kPairs ? kGradientStride : kKeyStride, 1, kPairs ? kPairQk : kRowQk>(
      tile.rows, kPairs ? w.dx_words : w.dp, kPairs ? w.k_pairs : w.k, dq, keys);
}
