// The five products of a tile, all from words: two whose sums run along the head dimension, three that add to
// gradients. Under a mask, strips and the runs of their sums end where nothing is seen.

constexpr int kQueryRows = Panel<kColumnsQk>::kRows;
static_assert(kTileM % Panel<kTileN>::kRows == 0 && kTileM % kQueryRows == 0);
static_assert(kTileN % kQueryRows == 0 && kTileN % Panel<kColumnsV>::kRows == 0);

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
// them in elements. Meanwhile kBytes from `fetched` on come to the L2 cache, a line or less a step.
template <int kColumns, int kRow, int kStep, int kStride, int kBytes, class StepsOf>
TS_INLINE void add_products(int rows, const float* a, const float* b, float* to, const StepsOf& steps_of,
                            const void* fetched) {
  using Cut = Panel<kColumns>;
  constexpr int kAllSteps = kTileM * kTileN / (kPack * Cut::kRows) * Cut::kPanels;
  constexpr int kStepBytes = (kBytes + kAllSteps - 1) / kAllSteps;
  const char* line = static_cast<const char*>(fetched);
  for (int c = 0; c < kColumns; c += Cut::kWidth)
    for (int row = 0; row < rows; row += Cut::kRows) {
      const Bounds seen = steps_of(row, row + Cut::kRows);
      if (seen.begin >= seen.end) continue;
      const int begin = seen.begin / kPack, steps = (seen.end + kPack - 1) / kPack - begin;
      float* const sums = to + row * kColumns + c;
      Vec x[Cut::kRows][Cut::kVectors];
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) x[r][v] = load(sums + r * kColumns + v * kLanes);
      }
      const float* const words = a + row * kRow + begin * kStep;
      const auto word = [&](int r, long long k) {
        if (r == 0) __builtin_prefetch(line + k * kStepBytes, 0, 2);
        return words[r * kRow + k * kStep];
      };
      multiply(x, word, b + begin * kStride + c, kStride, steps, 0);
      line += steps * kStepBytes;
#pragma GCC unroll 32
      for (int r = 0; r < Cut::kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < Cut::kVectors; ++v) store(sums + r * kColumns + v * kLanes, x[r][v]);
      }
    }
}

// dv += p^T do and dk += dx^T q.
inline void add_to_keys(const Tile& tile, const Fetched& fetched, Scratch& w) {
  const auto queries = [&](int begin, int end) { return tile.queries_of(begin, end); };
  add_products<kColumnsV, 1, kKeyStride, kPairs ? kPairV : kQueryRowV, Fetched::kQuerySumBytes>(
      tile.keys, pairs_of(w.s, w.p_pairs), pairs_of(w.g, w.g_pairs), w.dv, queries, fetched.query_sums);
  add_products<kColumnsQk, 1, kKeyStride, kPairs ? kPairQk : kQueryRowQk, Fetched::kDkBytes>(
      tile.keys, pairs_of(w.dp, w.dx_pairs), pairs_of(w.q, w.q_pairs), w.dk, queries, fetched.dk);
}

// dq += dx k.
inline void add_to_queries(const Tile& tile, const Fetched& fetched, const Scratch& w, float* dq) {
  const auto keys = [&](int begin, int end) { return tile.keys_of(begin, end); };
  add_products<kColumnsQk, kPairs ? kGradientStride : kKeyStride, 1, kPairs ? kPairQk : kRowQk, Fetched::kDvBytes>(
      tile.rows, kPairs ? w.dx_words : w.dp, kPairs ? w.k_pairs : w.k, dq, keys, fetched.dv);
}
