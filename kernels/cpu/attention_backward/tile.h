// A tile is a run of queries beside a block of keys: what sees what in it, its memory, and the copies of its operands.
// Products read words (common/convert.h), whose pairs lie along the sum: rows of words where the sum runs along a row,
// transposed words where such a product has its columns, and rows of pairs where the sum runs down the rows.

// Strides are never powers of two: such rows fall on few cache sets.
constexpr int kWordsV = kHeadDimV / kPack;
constexpr int kColumnsQk = round_up(kHeadDimQk, kLanes), kColumnsV = round_up(kHeadDimV, kLanes);
constexpr int kRowQk = round_up(kWordsQk, kLanes) + 16, kRowV = round_up(kWordsV, kLanes) + 16;
// Rows of float32 are words as they lie. A tile's are read in place where they follow one another: of 128 numbers at
// most, whose panels (products.h) still find room in L1.
constexpr bool is_read_in_place(int dim) {
  return kElement == Element::fp32 && dim % kLanes == 0 && dim <= 128;
}
constexpr int kQueryRowQk = is_read_in_place(kHeadDimQk) ? kHeadDimQk : kRowQk;
constexpr int kQueryRowV = is_read_in_place(kHeadDimV) ? kHeadDimV : kRowV;
constexpr int kPairQk = kColumnsQk + 16, kPairV = kColumnsV + 16;
constexpr int kKeyStride = kTileN + 16;               // of rows with a word for each key
constexpr int kGradientStride = kTileN / kPack + 16;  // of rows whose keys are joined to words
constexpr int kQueryStride = kTileM / kPack + 16;     // of rows whose queries are joined to words
constexpr bool kPairs = kPack == 2;
constexpr bool kMatrixTiles = kInstruction == Instruction::amx_bf16;
constexpr int kSteps = kMatrixTiles ? 32 : kPack;  // sums down the rows come in so many; zeros fill the last

// How products on vectors are cut: a strip of kRows rows by kVectors vectors of columns keeps its sums in registers.
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
  static constexpr int kPanels = kColumns / kWidth;
  static_assert(kColumns % kWidth == 0);
};

// Arrays begin on cache lines, because a vector that crosses one costs two accesses.
struct Scratch {
  alignas(64) float k[kTileN * kRowQk];  // rows of words
  alignas(64) float v[kTileN * kRowV];
  alignas(64) float kt[round_up(kWordsQk, kLanes) * kKeyStride];
  alignas(64) float vt[round_up(kWordsV, kLanes) * kKeyStride];
  alignas(64) float q_copy[kTileM * kQueryRowQk];
  alignas(64) float g_copy[kTileM * kQueryRowV];
  const float *q, *g;  // queries and output gradients: copies, or where they lie
  alignas(64) float k_pairs[kPairs ? kTileN / 2 * kPairQk : 1];
  alignas(64) float q_pairs[kPairs ? kTileM / 2 * kPairQk : 1];
  alignas(64) float g_pairs[kPairs ? kTileM / 2 * kPairV : 1];
  alignas(64) float s[kTileM * kKeyStride];  // dot products; without pairs then weights, and dp dx
  alignas(64) float dp[kTileM * kKeyStride];
  alignas(64) float p_pairs[kPairs ? kTileM / 2 * kKeyStride : 1];
  alignas(64) float dx_pairs[kPairs ? kTileM / 2 * kKeyStride : 1];
  alignas(64) float dx_words[kPairs ? kTileM * kGradientStride : 1];
  alignas(64) float turned[kMatrixTiles ? kTileN * kQueryStride : 1];  // weights with a row for each key
  alignas(64) float dk[kTileN * kColumnsQk];
  alignas(64) float dv[kTileN * kColumnsV];
  alignas(64) float bias[kPack][kBias ? kTileN + kLanes : 1];
  alignas(64) float keep[kPack][kDropout ? kKeepKeys : 1];
  float lse[kTileM], delta[kTileM];
};

// Operands under their roles in a product, which are the same memory where a word is one element.
TS_INLINE const float* pairs_of(const float* words, const float* pairs) {
  return kPairs ? pairs : words;
}

struct Bounds {
  int begin, end;
};

TS_INLINE int later(int a, int b) {
  return a > b ? a : b;
}
TS_INLINE int earlier(int a, int b) {
  return a < b ? a : b;
}

// Query i of the tile (of `rows`) sees its keys i - left .. i + right (of `keys`).
struct Tile {
  long long query, key;  // the first ones, in the sequence
  int rows, keys, left, right;

  TS_INLINE bool is_masked() const { return keys < kTileN || rows - 1 > left || keys - 1 > right; }
  // What the queries begin .. end - 1 see, and what sees keys: a run that may be empty.
  TS_INLINE Bounds keys_of(int begin, int end) const {
    return {later(0, begin - left), earlier(keys, earlier(end, rows) + right)};
  }
  TS_INLINE Bounds queries_of(int begin, int end) const {
    return {later(0, begin - right), earlier(rows, earlier(end, keys) + left)};
  }
};

TS_INLINE int near_zero(long long distance) {
  constexpr long long kFar = 1 << 29;  // farther than any tile, and sums of two do not overflow
  return (int)min_of(kFar, max_of(-kFar, distance));
}

inline Tile tile_of(const TsAttentionBackwardArgs& args, const Span& t, long long query, long long end_query,
                    long long key) {
  const long long diagonal = query + t.shift + args.diagonal - key;
  return {query,
          key,
          (int)min_of(kTileM, end_query - query),
          (int)min_of(kTileN, t.seqlen_k - key),
          near_zero(args.window_left >= 0 ? args.window_left - diagonal : kTileM),
          near_zero(args.window_right >= 0 ? args.window_right + diagonal : kTileN)};
}

// Rows of a tensor that will be read; they may lie beyond its end.
struct NextRows {
  const Stored* rows;
  long long stride;
};

// Runs of memory that are needed soon, and come to the L2 cache while a tile's products run: dq's sums of the tile, and
// the rows of dk and dv that the block of keys will write.
struct Fetched {
  static constexpr int kQuerySumBytes = kTileM * kColumnsQk * (int)sizeof(float);
  static constexpr int kDkBytes = kTileN * kHeadDimQk * (int)sizeof(Output);
  static constexpr int kDvBytes = kTileN * kHeadDimV * (int)sizeof(Output);
  const void *query_sums, *dk, *dv;
};

// `count` rows of a tensor as rows of words, and zeros up to `end` rows.
template <int kDim, int kStride>
inline void stage_rows(const Stored* from, long long from_stride, int count, int end, float* to) {
  constexpr int kWords = kDim / kPack;
  for (int j = 0; j < end; ++j) {
    float* row = to + j * kStride;
    if (j < count) {
      row_to_words<kDim, kElement>(from + j * from_stride, row);
      zero_words(row + kWords, round_up(kWords, kLanes) - kWords);
    } else {
      zero_words(row, round_up(kWords, kLanes));
    }
  }
}

// The same of a tile's rows, which may stay where they are.
template <int kDim, int kStride>
inline const float* query_rows(const Stored* from, long long from_stride, int count, int end, float* copy) {
  if constexpr (is_read_in_place(kDim))
    if (count % Panel<kTileN>::kRows == 0 && from_stride == kDim)
      return static_cast<const float*>(static_cast<const void*>(from));
  stage_rows<kDim, kStride>(from, from_stride, count, end, copy);
  return copy;
}

template <int kDim>
alignas(64) constexpr Stored kZeros[kDim] = {};

// The same as rows of pairs, for products whose sums run down the rows, and zeros up to a whole step.
template <int kDim, int kStride>
inline void stage_pairs(const Stored* from, long long from_stride, int count, float* to) {
  if constexpr (kPairs) {
    for (int j = 0; j < round_up(count, kSteps); j += 2) {
      float* row = to + j / 2 * kStride;
      rows_to_pairs<kDim>(j < count ? from + j * from_stride : kZeros<kDim>,
                          j + 1 < count ? from + (j + 1) * from_stride : kZeros<kDim>, row);
      zero_words(row + kDim, round_up(kDim, kLanes) - kDim);
    }
  }
}

// kTileN rows of words as columns.
template <int kWords, int kStride>
inline void transpose_keys(const float* from, float* to) {
  for (int c = 0; c < kWords; c += kLanes)
    for (int j = 0; j < kTileN; j += kLanes)
      transpose_block(from + j * kStride + c, kStride, to + c * kKeyStride + j, kKeyStride);
}

inline const Stored* stored_keys(const TsAttentionBackwardArgs& args, const Span& t, long long key) {
  return static_cast<const Stored*>(args.k) + key_place(args, args.k_strides, t, key);
}
inline const Stored* stored_values(const TsAttentionBackwardArgs& args, const Span& t, long long key) {
  return static_cast<const Stored*>(args.v) + key_place(args, args.v_strides, t, key);
}

inline void stage_keys(const TsAttentionBackwardArgs& args, const Span& t, long long key, Scratch& w) {
  const int count = (int)min_of(kTileN, t.seqlen_k - key);
  const Stored* k = stored_keys(args, t, key);
  const Stored* v = stored_values(args, t, key);
  stage_rows<kHeadDimQk, kRowQk>(k, args.k_strides.row, count, kTileN, w.k);
  stage_rows<kHeadDimV, kRowV>(v, args.v_strides.row, count, kTileN, w.v);
  stage_pairs<kHeadDimQk, kPairQk>(k, args.k_strides.row, count, w.k_pairs);
  transpose_keys<kWordsQk, kRowQk>(w.k, w.kt);
  transpose_keys<kWordsV, kRowV>(w.v, w.vt);
}

inline const Stored* stored_queries(const TsAttentionBackwardArgs& args, const Span& t, long long query) {
  return static_cast<const Stored*>(args.q) + query_place(args, args.q_strides, t, query);
}
inline const Stored* stored_gradients(const TsAttentionBackwardArgs& args, const Span& t, long long query) {
  return static_cast<const Stored*>(args.grad.dout) + query_place(args, args.grad.dout_strides, t, query);
}

// A tile's queries, output gradients and statistics, with zeros up to a whole pair. What a row without weights has for
// its log-sum-exp makes every weight 0.
inline void stage_queries(const TsAttentionBackwardArgs& args, const Span& t, const Tile& tile, Scratch& w) {
  const int end = round_up(tile.rows, kPack);
  const Stored* q = stored_queries(args, t, tile.query);
  const Stored* g = stored_gradients(args, t, tile.query);
  w.q = query_rows<kHeadDimQk, kQueryRowQk>(q, args.q_strides.row, tile.rows, end, w.q_copy);
  w.g = query_rows<kHeadDimV, kQueryRowV>(g, args.grad.dout_strides.row, tile.rows, end, w.g_copy);
  stage_pairs<kHeadDimQk, kPairQk>(q, args.q_strides.row, tile.rows, w.q_pairs);
  stage_pairs<kHeadDimV, kPairV>(g, args.grad.dout_strides.row, tile.rows, w.g_pairs);
  const float* delta = deltas(args) + (t.batch * args.heads_q + t.head) * args.seqlen_q + tile.query;
  for (int i = 0; i < end; ++i) {
    const bool there = i < tile.rows;
    const float lse = there ? args.lse[query_place(args, args.lse_strides, t, tile.query + i)] : -kInfinity;
    w.lse[i] = TS_LSE_LOST(lse) ? kInfinity : lse;
    w.delta[i] = there ? delta[i] : 0;
  }
}
