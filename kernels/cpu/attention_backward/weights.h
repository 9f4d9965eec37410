// From dot products to what the gradients are products of: weights p, with dropout's factor, and dx.

constexpr int kSpan = kPack * kLanes;  // keys that are weighed together

// The numbers of one query.
struct Row {
  float lse, delta;
  float slope, origin;  // ALiBi: the slope, and where the diagonal meets the block of keys
  Bounds seen;
};

// What is the same for every row of a call.
struct Logits {
  float scale, cap, per_cap;  // per_cap: from a dot product to tanh's argument
};

inline Logits logits_of(const TsAttentionBackwardArgs& args) {
  return {args.scale, args.soft_cap, kSoftCap ? args.scale / args.soft_cap : 0};
}

inline Row row_of(const TsAttentionBackwardArgs& args, const Span& t, const Tile& tile, const Scratch& w, int i) {
  Row row = {w.lse[i], w.delta[i], 0, 0, tile.keys_of(i, i + 1)};
  if constexpr (kAlibi) {
    row.slope = args.alibi[t.batch * args.alibi_batch_stride + t.head];
    row.origin = (float)(tile.query + i + t.shift - tile.key);
  }
  return row;
}

[[maybe_unused]] inline void stage_bias(const TsAttentionBackwardArgs& args, const Span& t, const Tile& tile, int i,
                                        float* to) {
  const TsStrides& strides = args.bias_strides;
  if (args.bias == nullptr || i >= tile.rows) return zero_words(to, kTileN);
  const float* from = args.bias + t.batch * strides.batch + t.head * strides.head + (tile.query + i) * strides.row +
                      tile.key * strides.column;
  for (int j = 0; j < tile.keys; ++j) to[j] = from[j * strides.column];
}

// The weights of a query for the keys from j on: p (with dropout's factor) and dx.
template <bool kMasked>
TS_INLINE void weigh_vector(const Logits& logits, const Row& row, const float* bias, const float* keep, int j, Vec dot,
                            Vec dp, Vec& p, Vec& dx) {
  constexpr IVec kIota = TS_LANE_NUMBERS;
  Vec slant = splat(1.0f);  // of the soft cap
  Vec x = dot * logits.scale;
  if constexpr (kSoftCap) {
    const Vec y = tanh(dot * logits.per_cap);
    x = y * logits.cap;
    slant = 1.0f - y * y;
  }
  if constexpr (kBias) x = x + load(bias + j);
  const IVec place = splat(j) + kIota;
  if constexpr (kAlibi) x = x - row.slope * magnitude(row.origin - __builtin_convertvector(place, Vec));
  // Natural up to here, so that scale and subtraction are one rounding: large logits keep their differences.
  p = exp2<kExp2Degree>((x - row.lse) * kLog2E);
  if constexpr (kDropout) dp = dp * load(keep + j);
  dx = p * (dp - row.delta);
  if constexpr (kMasked) {
    const IVec seen = (place >= row.seen.begin) & (place < row.seen.end);
    p = select(seen, p, Vec{});
    dx = select(seen, dx, Vec{});
  }
  if constexpr (kSoftCap) dx = dx * slant;
  if constexpr (kDropout) p = p * load(keep + j);
}

// The words of kPack queries for kSpan keys from j on. Without pairs they take the place of the dot products.
TS_INLINE void store_weights(Scratch& w, int i, int j, const Vec (&p)[kPack][kPack], const Vec (&dx)[kPack][kPack]) {
  if constexpr (kPairs) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const int at = i / 2 * kKeyStride + j + v * kLanes;
      store(w.p_pairs + at, pair_bf16(p[0][v], p[1][v]));
      store(w.dx_pairs + at, pair_bf16(dx[0][v], dx[1][v]));
      store(w.dx_words + (i + v) * kGradientStride + j / 2, join_bf16(dx[v][0], dx[v][1]));
    }
  } else {
    store(w.s + i * kKeyStride + j, p[0][0]);
    store(w.dp + i * kKeyStride + j, dx[0][0]);
  }
}

// Nothing is seen from key `begin` to `end`, whole spans.
TS_INLINE void clear_weights(Scratch& w, int i, int begin, int end) {
  constexpr Vec kNothing[kPack][kPack] = {};
  for (int j = begin; j < end; j += kSpan) store_weights(w, i, j, kNothing, kNothing);
}

template <bool kMasked>
inline void weigh(const TsAttentionBackwardArgs& args, const Span& t, const Tile& tile, Scratch& w) {
  const Logits logits = logits_of(args);
  const int all_keys = round_up(tile.keys, kSpan);
  for (int i = 0; i < tile.rows; i += kPack) {
    Bounds seen = {0, all_keys};
    if constexpr (kMasked) {
      const Bounds run = tile.keys_of(i, i + kPack);
      const int begin = earlier(run.begin, tile.keys) / kSpan * kSpan;
      seen = {begin, run.end <= begin ? begin : round_up(run.end, kSpan)};
      clear_weights(w, i, 0, seen.begin);
      clear_weights(w, i, seen.end, all_keys);
    }
    Row row[kPack];
#pragma GCC unroll 2
    for (int r = 0; r < kPack; ++r) {
      row[r] = row_of(args, t, tile, w, i + r);
      if constexpr (kBias) stage_bias(args, t, tile, i + r, w.bias[r]);
      if constexpr (kDropout) fill_keep(args, t.batch * args.heads_q + t.head, tile.query + i + r, tile.key, w.keep[r]);
    }
    for (int j = seen.begin; j < seen.end; j += kSpan) {
      Vec p[kPack][kPack], dx[kPack][kPack];
#pragma GCC unroll 2
      for (int r = 0; r < kPack; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kPack; ++v) {
          const int at = j + v * kLanes, place = (i + r) * kKeyStride + at;
          weigh_vector<kMasked>(logits, row[r], w.bias[kBias ? r : 0], w.keep[kDropout ? r : 0], at, load(w.s + place),
                                load(w.dp + place), p[r][v], dx[r][v]);
        }
      }
      store_weights(w, i, j, p, dx);
    }
  }
  // Strips of dq run over the last row.
  for (int i = round_up(tile.rows, kPack); i < round_up(tile.rows, kQueryRows); i += kPack)
    clear_weights(w, i, 0, all_keys);
}
