// The two products of decode on AMX tiles: S^T = K Q^T and O = P V. Keys as they lie are A's rows, and queries, packed
// once, are B; the scores are transposed for the softmax, and its results are A's rows. Of values only pairs of rows
// are interleaved to be B.

constexpr int kKeyTiles = kTileN % 64 == 0 ? 4 : 2;  // of 16 keys, multiplied at a time
constexpr int kScored = 16 * kKeyTiles;              // keys
constexpr int kPaddedQk = 32 * kChunksQk;
constexpr int kValueTiles = kChunksV % 4 == 0 ? 4 : 2;  // of 16 columns, whose sums are kept in tiles at a time
constexpr int kPasses = kChunksV / kValueTiles;
constexpr bool kKeysAsTheyLie = !kPaged && !kScaled && kHeadDimQk % 32 == 0;

struct alignas(64) Scratch : RowState {
  float queries[kChunksQk][16][16];  // words of B: a tile for 32 columns
  alignas(64) float scores[kScored][16];
  alignas(64) unsigned short p[kMaxRows][kTileN + 32];  // A; rows a cache line apart lie in different sets
  alignas(64) unsigned short keys[kScored][kPaddedQk];  // those that are no tiles as they lie
  alignas(64) float values[2][kValueTiles][16][16];     // words of B: pairs of keys
};

// What happens to lie where: words of a query are transposed as a whole, and interleaving leaves the columns of 8 words
// together.
constexpr int place_in_query(int c) {
  return c;
}
constexpr int place_in_sums(int c) {
  return c / 32 * 32 + c % 8 / 4 * 16 + c % 32 / 8 * 4 + c % 4;
}

typedef unsigned short PairedShorts __attribute__((vector_size(64)));
typedef unsigned short LoosePairedShorts __attribute__((vector_size(64), aligned(2), may_alias));

// 32 elements of a row from column c on as bf16; zeros beyond its end.
template <int kColumns>
TS_INLINE PairedShorts load_pairs(const Cached* row, int c) {
  if constexpr (kColumns % 32 != 0) {
    if (c + 32 > kColumns) {
      alignas(64) unsigned short part[32] = {};
      for (int i = 0; i < kColumns % 32; i += 8)
        *reinterpret_cast<LooseShorts*>(part + i) = load_shorts<kCache>(row + c + i);
      return *reinterpret_cast<const LoosePairedShorts*>(part);
    }
  }
  if constexpr (kScaled) {
    return (PairedShorts)join_bf16(load_floats<kCache, 16>(row + c), load_floats<kCache, 16>(row + c + 16));
  } else {
    return *reinterpret_cast<const LoosePairedShorts*>(row + c);
  }
}

// Neighbouring lanes of a and b in turn, in each quarter of the vectors: of its lower or its upper half.
template <int kFrom>
TS_INLINE Vec interleaved(PairedShorts a, PairedShorts b) {
#define TS_TURN(i) (i) / 8 * 8 + kFrom + (i) % 8 / 2 + (i) % 2 * 32
#define TS_TURNS(i)                                                                                           \
  TS_TURN(i), TS_TURN(i + 1), TS_TURN(i + 2), TS_TURN(i + 3), TS_TURN(i + 4), TS_TURN(i + 5), TS_TURN(i + 6), \
      TS_TURN(i + 7)
  return (Vec)__builtin_shufflevector(a, b, TS_TURNS(0), TS_TURNS(8), TS_TURNS(16), TS_TURNS(24));
#undef TS_TURNS
#undef TS_TURN
}

// The kScored keys from j0 on as A's rows: zeros where there is none.
TS_INLINE void copy_keys(const Rows& rows, int j0, int count, Scratch& w) {
  for (int j = 0; j < kScored; ++j)
    for (int c = 0; c < kPaddedQk; c += 32)
      *reinterpret_cast<PairedShorts*>(&w.keys[j][c]) =
          j0 + j < count ? load_pairs<kHeadDimQk>(rows[j0 + j], c) : PairedShorts{};
}

// 16 keys with all queries.
template <int kTile, class Fetch>
TS_INLINE void score_tile(const char* from, long long stride, Fetch& fetch, Scratch& w) {
  tile_zero<kTile>();
  for (int d = 0; d < kChunksQk; ++d) {
    tile_load<4>(w.queries[d], kTileRow);
    tile_load<5>(from + 16 * kTile * stride + d * kTileRow, stride);
    tile_dot<kTile, 5, 4>();
    fetch();
  }
  tile_store<kTile>(w.scores[16 * kTile], kTileRow);
}

template <int kRows>
constexpr int score_steps(int count) {
  return (count + kScored - 1) / kScored * kKeyTiles * kChunksQk;
}

// Bytes from one row to the next; rows in pages have no such step.
TS_INLINE long long row_step(const RowsOf<false>& rows) {
  return rows.stride * (long long)sizeof(Cached);
}
TS_INLINE long long row_step(const RowsOf<true>&) {
  return 0;
}

// Scores of `count` keys; logits go to w.s. Calls fetch() score_steps(count) times.
template <int kRows, class Fetch>
inline void decode_scores(const TsAttentionArgs& args, const RowGroup& g, const Scaling& scaling, const KeyRows& rows,
                          long long key, int count, Fetch& fetch, Scratch& w) {
  for (int j0 = 0; j0 < count; j0 += kScored) {
    const bool as_they_lie = kKeysAsTheyLie && j0 + kScored <= count;
    if (!as_they_lie) copy_keys(rows.keys, j0, count, w);
    const void* const tiles = as_they_lie ? static_cast<const void*>(rows.keys[j0]) : w.keys;
    const char* const from = static_cast<const char*>(tiles);
    const long long stride = as_they_lie ? row_step(rows.keys) : sizeof(w.keys[0]);
    score_tile<0>(from, stride, fetch, w);
    score_tile<1>(from, stride, fetch, w);
    if constexpr (kKeyTiles == 4) {
      score_tile<2>(from, stride, fetch, w);
      score_tile<3>(from, stride, fetch, w);
    }
    for (int j = j0; j < count && j < j0 + kScored; j += 16) {
      Vec x[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) x[i] = load(w.scores[j - j0 + i]);
      transpose(x);
      alignas(64) float of_row[kLanes][kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(of_row[i], x[i]);
      for (int r = 0; r < g.rows; ++r) {
        Vec dot = load(of_row[r]);
        if constexpr (kScaled) dot = dot * load(&w.scales.keys[j]);
        store(&w.s[r][j], decode_logit(args, g, scaling, r, key + j, count - j, dot));
      }
    }
  }
}

// B's tiles of 32 keys from j on, kValueTiles of columns from c on.
TS_INLINE void interleave_values(const Rows& values, int j, int count, int c, float (&to)[kValueTiles][16][16]) {
  for (int i = 0; i < 32; i += 2) {
    const Cached* first = j + i < count ? values[j + i] : kZeroRow;
    const Cached* second = j + i + 1 < count ? values[j + i + 1] : kZeroRow;
#pragma GCC unroll 2
    for (int t = 0; t < kValueTiles; t += 2) {
      const PairedShorts a = load_pairs<kHeadDimV>(first, c + 16 * t), b = load_pairs<kHeadDimV>(second, c + 16 * t);
      store(to[t][i / 2], interleaved<0>(a, b));
      store(to[t + 1][i / 2], interleaved<4>(a, b));
    }
  }
}

// Row r's probabilities as a row of A, with zeros up to whole tiles.
TS_INLINE void pack_probabilities(int count, int r, Scratch& w) {
  for (int j = 0; j < count; j += 32) {
    const Vec low = load(&w.s[r][j]), high = j + 16 < count ? load(&w.s[r][j + 16]) : Vec{};
    store(reinterpret_cast<float*>(&w.p[r][j]), join_bf16(low, high));
  }
}

template <int kRows>
constexpr int value_steps(int count) {
  return (count + 31) / 32 * kPasses;
}

// Adds up the block's values. Calls fetch() value_steps(count) times.
template <int kRows, class Fetch>
inline void decode_values(const RowGroup& g, const Rows& values, int count, Fetch& fetch, Scratch& w) {
  constexpr long long kStride = sizeof(w.o[0]);
  for (int r = 0; r < g.rows; ++r) pack_probabilities(count, r, w);
  for (int pass = 0; pass < kPasses; ++pass) {
    const int c = pass * 16 * kValueTiles;
    float* o = &w.o[0][c];
    tile_load<0>(o, kStride);
    tile_load<1>(o + 16, kStride);
    if constexpr (kValueTiles == 4) {
      tile_load<2>(o + 32, kStride);
      tile_load<3>(o + 48, kStride);
    }
    interleave_values(values, 0, count, c, w.values[0]);
    for (int j = 0; j < count; j += 32) {
      const auto& tiles = w.values[j / 32 % 2];
      // The next keys' are under way to the cache, from where alone tiles can be loaded, while these are multiplied.
      if (j + 32 < count) interleave_values(values, j + 32, count, c, w.values[(j / 32 + 1) % 2]);
      tile_load<4>(&w.p[0][j], sizeof(w.p[0]));
      tile_load<5>(tiles[0], kTileRow);
      tile_dot<0, 4, 5>();
      tile_load<6>(tiles[1], kTileRow);
      tile_dot<1, 4, 6>();
      if constexpr (kValueTiles == 4) {
        tile_load<5>(tiles[2], kTileRow);
        tile_dot<2, 4, 5>();
        tile_load<6>(tiles[3], kTileRow);
        tile_dot<3, 4, 6>();
      }
      fetch();
    }
    tile_store<0>(o, kStride);
    tile_store<1>(o + 16, kStride);
    if constexpr (kValueTiles == 4) {
      tile_store<2>(o + 32, kStride);
      tile_store<3>(o + 48, kStride);
    }
  }
}

// Before the first block.
TS_INLINE void begin_rows(const RowGroup& g, Scratch& w) {
  for (int d = 0; d < kChunksQk; ++d) transpose_block(&w.q[0][16 * d], kChunksQk * kLanes, w.queries[d][0], 16);
  for (int r = g.rows; r < kMaxRows; ++r) zero_words(reinterpret_cast<float*>(w.p[r]), sizeof(w.p[r]) / 4);
}
