// The rows of a decode task, and what comes between its two products: a task takes one row group (up to kMaxRows query
// rows that share a key-value head: the heads of the group times the queries of the sequence) and one split of the
// keys. Keys run along the lanes in the softmax.

constexpr bool kTiles = kInstruction == Instruction::amx_bf16;
constexpr int kMaxRows = kTiles ? 16 : 8;  // a tile has 16
constexpr int kChunksQk = round_up(kWordsQk, kLanes) / kLanes;
constexpr int kChunksV = round_up(kHeadDimV, kTiles ? 2 * kLanes : kLanes) / kLanes;
constexpr int kPartial =
    kLanes + kChunksV * kLanes;  // floats of a row's partials: m, l, then (after one vector) the sums

struct alignas(64) RowState {
  float q[kMaxRows][kChunksQk * kLanes];
  float o[kMaxRows][kChunksV * kLanes];
  float s[kMaxRows][kTileN];  // scores, then probabilities
  float m[kMaxRows], l[kMaxRows];
  KeyScales<kTileN> scales;
  Places<kTileN> places[2];  // of a block and the next
};

struct RowGroup {
  long long batch, head_kv, first_row, split;
  int rows;
  Sequence sequence;
  int query[kMaxRows], head[kMaxRows];
  Visible visible[kMaxRows];
  long long low, high;  // what any row sees
};

TS_INLINE long long row_groups(const TsAttentionArgs& args) {
  return args.heads_kv == 0 ? 0 : (args.heads_q / args.heads_kv * args.seqlen_q + kMaxRows - 1) / kMaxRows;
}

long long combine_tasks(const void* args_pointer) {
  const TsAttentionArgs& args = arguments(args_pointer);
  return args.batch * args.heads_kv * row_groups(args);
}

long long split_tasks(const void* args_pointer) {
  return combine_tasks(args_pointer) * arguments(args_pointer).splits;
}

// The rows of group number `index`; the last may be short, or empty for a short sequence of a batch.
inline RowGroup row_group(const TsAttentionArgs& args, long long index) {
  const long long groups = row_groups(args);
  const long long per_head = args.heads_q / args.heads_kv;
  RowGroup g = {};
  g.batch = index / groups / args.heads_kv;
  g.head_kv = index / groups % args.heads_kv;
  g.first_row = index % groups * kMaxRows;
  g.sequence = sequence_of(args, g.batch);
  g.rows = (int)max_of(0, min_of(kMaxRows, per_head * g.sequence.seqlen_q - g.first_row));
  g.low = g.sequence.seqlen_k;
  g.high = -1;
  for (int r = 0; r < g.rows; ++r) {
    g.query[r] = (int)((g.first_row + r) % g.sequence.seqlen_q);
    g.head[r] = (int)(g.head_kv * per_head + (g.first_row + r) / g.sequence.seqlen_q);
    g.visible[r] = visible_keys(args, g.sequence, g.query[r]);
    g.low = min_of(g.low, g.visible[r].low);
    g.high = max_of(g.high, g.visible[r].high);
  }
  return g;
}

TS_INLINE float sum_of(Vec x) {
  x = fold<1>(x, x);
  x = fold<2>(x, x);
  x = fold<4>(x, x);
  if constexpr (kLanes == 16) x = fold<8>(x, x);
  return x[0];
}

template <int kStep>
TS_INLINE Vec larger_neighbour(Vec x) {
  return larger(x, __builtin_shufflevector(x, x, TS_LANES(upper_lane, kStep)));
}

TS_INLINE float maximum_of(Vec x) {
  x = larger_neighbour<1>(x);
  x = larger_neighbour<2>(x);
  x = larger_neighbour<4>(x);
  if constexpr (kLanes == 16) x = larger_neighbour<8>(x);
  return x[0];
}

// 2^x of one number, by the vectors' own arithmetic.
TS_INLINE float exp2_scalar(float x) {
  return exp2<5>(splat(x))[0];
}

// Logits of kLanes keys from `key` on, of row r.
TS_INLINE Vec decode_logit(const TsAttentionArgs& args, const RowGroup& g, const Scaling& scaling, int r, long long key,
                           int count, Vec x) {
  constexpr IVec kIota = TS_LANE_NUMBERS;
  const IVec j = splat((int)key) + kIota;
  if constexpr (kSoftCap) {
    x = tanh(x * scaling.dot) * scaling.capped;
  } else {
    x = x * (kTransformed ? scaling.dot : scaling.exponent);
  }
  if (kBias && args.bias != nullptr) {
    const TsStrides& strides = args.bias_strides;
    const float* row = args.bias + g.batch * strides.batch + g.head[r] * strides.head + g.query[r] * strides.row +
                       key * strides.column;
    float bias[kLanes] = {};
    for (int i = 0; i < count && i < kLanes; ++i) bias[i] = row[i * strides.column];
    x = x + load(bias) * kToBase2;
  }
  if constexpr (kAlibi) {
    const float slope = args.alibi[g.batch * args.alibi_batch_stride + g.head[r]] * kLog2E;
    x = x - slope * magnitude((float)(g.query[r] + g.sequence.shift) - __builtin_convertvector(j, Vec));
  }
  IVec seen = kIota < count;
  if constexpr (kMask) seen &= (j >= (int)g.visible[r].low) & (j <= (int)g.visible[r].high);
  return select(seen, x, splat(-kInfinity));
}

// Rows on their way to the cache: each step asks for its share, so that memory never waits for arithmetic. Whole rows
// one behind the other, because the processor then sees them coming too and has more of them under way.
template <int kColumns>
struct RowsAhead {
  const Rows& rows;
  int count, steps;
  int row = 0, due = 0;

  TS_INLINE void operator()() {
    for (due += count; due >= steps; due -= steps) {
      const char* from = reinterpret_cast<const char*>(rows[row++]);
      for (int byte = 0; byte < kColumns * (int)sizeof(Cached); byte += 64) __builtin_prefetch(from + byte, 0, 2);
    }
  }
};

// The online softmax of one row over the block; its earlier sums shrink when the maximum grows.
inline void decode_softmax(const TsAttentionArgs& args, const RowGroup& g, long long key, int count, int r,
                           RowState& w) {
  Vec top = load(w.s[r]);
  for (int j = kLanes; j < count; j += kLanes) top = larger(load(&w.s[r][j]), top);
  const float block_top = maximum_of(top);
  if (block_top > w.m[r]) {
    const float shrink = exp2_scalar((w.m[r] - block_top) * kUnit);
    w.m[r] = block_top;
    w.l[r] *= shrink;
    for (int c = 0; c < kChunksV; ++c) store(&w.o[r][c * kLanes], load(&w.o[r][c * kLanes]) * shrink);
  }
  const float anchor = w.m[r] == -kInfinity ? 0.0f : w.m[r];  // -inf - -inf is NaN
  Vec sum = {};
  for (int j = 0; j < count; j += kLanes) {
    const Vec p = exp2<kExp2Degree>((load(&w.s[r][j]) - anchor) * kUnit);
    sum = sum + p;
    store(&w.s[r][j], kScaled ? p * load(&w.scales.values[kScaled ? j : 0]) : p);
  }
  w.l[r] += sum_of(sum);
  if constexpr (kDropout) {
    const UVec query = splat((unsigned)g.query[r]);
    const UVec batch_head = splat((unsigned)(g.batch * args.heads_q + g.head[r]));
    for (int j = 0; j < count; j += 8) {
      const PhiloxWords words = dropout_words(args, key + j, query, batch_head);
      for (int e = 0; e < 8; ++e) {
        if (dropout_keeps(words, e, args.drop_threshold)[0] == 0) w.s[r][j + e] = 0;
      }
    }
  }
}
