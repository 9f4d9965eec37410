// The five products of a tile on AMX: squares of 32 rows by 32 columns, in four matrix tiles. Every operand lies as its
// matrix tiles are read (16 rows of 16 words), but the weights of dv and dk, which are transposed first.

constexpr int kSquare = 32;
constexpr int kQueryRows = kSquare;

// to[i][j] (+)= sum over `steps` of 32 elements of a[i][step] b[step][j]; strides in words.
template <bool kAdds>
TS_INLINE void multiply_square(const float* a, long long a_stride, const float* b, long long b_stride, int steps,
                               float* to, long long stride) {
  constexpr long long kWord = sizeof(float);
  float* const lower = to + 16 * stride;
  if constexpr (kAdds) {
    tile_load<0>(to, stride * kWord);
    tile_load<1>(to + 16, stride * kWord);
    tile_load<2>(lower, stride * kWord);
    tile_load<3>(lower + 16, stride * kWord);
  } else {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  }
  for (int k = 0; k < steps; ++k) {  // each multiplication waits for one load only
    tile_load<4>(a, a_stride * kWord);
    tile_load<6>(b, b_stride * kWord);
    tile_dot<0, 4, 6>();
    tile_load<7>(b + 16, b_stride * kWord);
    tile_dot<1, 4, 7>();
    tile_load<5>(a + 16 * a_stride, a_stride * kWord);
    tile_dot<2, 5, 6>();
    tile_dot<3, 5, 7>();
    a += 16;
    b += 16 * b_stride;
  }
  tile_store<0>(to, stride * kWord);
  tile_store<1>(to + 16, stride * kWord);
  tile_store<2>(lower, stride * kWord);
  tile_store<3>(lower + 16, stride * kWord);
}

// to[i][j] = dot(rows[i], columns[.][j]) where a square sees something.
template <int kWords, int kRowStride>
inline void dot_products(const Tile& tile, const float* rows, const float* columns, float* to, const NextRows&) {
  static_assert(kWords % 16 == 0);
  for (int j = 0; j < tile.keys; j += kSquare)
    for (int i = 0; i < tile.rows; i += kSquare) {
      const Bounds seen = tile.keys_of(i, i + kSquare);
      if (seen.end <= j || seen.begin >= j + kSquare) continue;
      multiply_square<false>(rows + i * kRowStride, kRowStride, columns + j, kKeyStride, kWords / 16,
                             to + i * kKeyStride + j, kKeyStride);
    }
}

// to[r][c] += sum over the steps that the square of row r has of a[r][step] b[step][c].
template <int kColumns, int kRow, int kStride, class StepsOf>
TS_INLINE void add_products(int rows, const float* a, const float* b, float* to, const StepsOf& steps_of) {
  for (int c = 0; c < kColumns; c += kSquare)
    for (int row = 0; row < rows; row += kSquare) {
      const Bounds seen = steps_of(row, row + kSquare);
      if (seen.begin >= seen.end) continue;
      const int begin = seen.begin / kSquare, steps = (seen.end + kSquare - 1) / kSquare - begin;
      multiply_square<true>(a + row * kRow + 16 * begin, kRow, b + 16 * begin * kStride + c, kStride, steps,
                            to + row * kColumns + c, kColumns);
    }
}

// Pairs of queries by keys become keys by pairs of queries.
inline void transpose_weights(const Tile& tile, const float* from, float* to) {
  for (int i = 0; i < tile.rows; i += 2 * kLanes)
    for (int j = 0; j < tile.keys; j += kLanes)
      transpose_block(from + i / 2 * kKeyStride + j, kKeyStride, to + j * kQueryStride + i / 2, kQueryStride);
}

// dv += p^T do and dk += dx^T q.
inline void add_to_keys(const Tile& tile, const Fetched&, Scratch& w) {
  const auto queries = [&](int begin, int end) { return tile.queries_of(begin, end); };
  transpose_weights(tile, w.p_pairs, w.turned);
  add_products<kColumnsV, kQueryStride, kPairV>(tile.keys, w.turned, w.g_pairs, w.dv, queries);
  transpose_weights(tile, w.dx_pairs, w.turned);
  add_products<kColumnsQk, kQueryStride, kPairQk>(tile.keys, w.turned, w.q_pairs, w.dk, queries);
}

// dq += dx k.
inline void add_to_queries(const Tile& tile, const Fetched&, const Scratch& w, float* dq) {
  const auto keys = [&](int begin, int end) { return tile.keys_of(begin, end); };
  add_products<kColumnsQk, kGradientStride, kPairQk>(tile.rows, w.dx_words, w.k_pairs, dq, keys);
}
