// Attention for few queries: bound by reading keys and values once. A task takes one row group (up to kMaxRows query
// rows that share a key-value head: the heads of the group times the queries of the sequence) and one split of
// the keys, and leaves partials (maximum, sum, output sums) in the workspace; a second stage combines them. Columns run
// along the lanes in Q x K^T and in P x V, so keys and values are read as they lie; keys run along the lanes in the
// softmax between them.

constexpr int kMaxRows = 8;
constexpr int kChunksQk = round_up(kWordsQk, kLanes) / kLanes;
constexpr int kChunksV = round_up(kHeadDimV, kLanes) / kLanes;
constexpr int kPartial =
    kLanes + kChunksV * kLanes;  // floats of a row's partials: m, l, then (after one vector) the sums

struct alignas(64) Scratch {
  float q[kMaxRows][kChunksQk * kLanes];
  float o[kMaxRows][kChunksV * kLanes];
  float s[kMaxRows][kTileN];  // scores, then probabilities
  float m[kMaxRows], l[kMaxRows];
  Vec partial[kMaxRows][kLanes];
  Places<kTileN> places;
  KeyScales<kTileN> scales;
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

long long decode_workspace(const void* args_pointer) {
  return split_tasks(args_pointer) * kMaxRows * kPartial * (long long)sizeof(float);
}

TS_INLINE float* partial_result(const TsAttentionArgs& args, long long group, long long split, int row) {
  return static_cast<float*>(args.workspace) + ((group * args.splits + split) * kMaxRows + row) * kPartial;
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

typedef unsigned short LaneShorts __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

// kLanes elements of a row as floats; the upper half is zero where the row ends after eight.
template <int kColumns>
TS_INLINE Vec load_elements(const Cached* row, int chunk) {
  const Cached* from = row + chunk * kLanes;
  if constexpr (kColumns % kLanes != 0) {
    if (chunk == kColumns / kLanes) {
      alignas(64) float tail[kLanes] = {};
      store_words(tail, load_floats<kCache, 8>(from));
      return load(tail);
    }
  }
  if constexpr (kScaled) {
    return load_floats<kCache, kLanes>(from);
  } else if constexpr (kElement == Element::fp32) {
    return *reinterpret_cast<const LooseVec*>(from);
  } else if constexpr (kElement == Element::bf16) {
    return (Vec)(__builtin_convertvector(*reinterpret_cast<const LaneShorts*>(from), UVec) << 16);
  } else {
    typedef unsigned short Half __attribute__((vector_size(2 * kLanes)));
    const Half h = *reinterpret_cast<const LaneShorts*>(from);
    Vec x;
    asm("vcvtph2ps %1, %0" : "=v"(x) : "v"(h));
    return x;
  }
}

// bf16 as floats two vectors at a time, which takes one instruction for each: of the 2 kLanes elements from chunk
// `chunk` on those of even places, then those of odd ones. Queries, and sums, lie so too.
constexpr bool kInTurn = kLanes == 16 && kCache == Element::bf16 && kElement == Element::bf16;
constexpr bool kKeysInTurn = kInTurn && kPack == 1 && kHeadDimQk % (2 * kLanes) == 0;
constexpr bool kValuesInTurn = kInTurn && kHeadDimV % (2 * kLanes) == 0;
constexpr int kKeyVectors = kKeysInTurn ? 2 : 1, kValueVectors = kValuesInTurn ? 2 : 1;

TS_INLINE void load_in_turn(const Cached* row, int chunk, Vec* x) {
  const UVec pairs = (UVec) * reinterpret_cast<const LooseIVec*>(row + chunk * kLanes);
  x[0] = (Vec)(pairs << 16);
  x[1] = (Vec)(pairs & 0xffff0000u);
}

// Where column c lies.
template <bool kTurned>
constexpr int place_of_column(int c) {
  return kTurned ? c / (2 * kLanes) * 2 * kLanes + c % 2 * kLanes + c % (2 * kLanes) / 2 : c;
}

// kLanes words of a key.
TS_INLINE Vec load_key(const Cached* row, int chunk) {
  static_assert(kPack == 1 || !kScaled, "elements of 8 bits become floats");
  if constexpr (kPack == 1) {
    return load_elements<kHeadDimQk>(row, chunk);
  } else {
    const float* words = reinterpret_cast<const float*>(row) + chunk * kLanes;
    if constexpr (kWordsQk % kLanes != 0) {
      if (chunk == kWordsQk / kLanes) {
        alignas(64) float tail[kLanes] = {};
        __builtin_memcpy(tail, words, kWordsQk % kLanes * 4);
        return load(tail);
      }
    }
    return load(words);
  }
}

// Lane l of the result: the sum of x[l]'s lanes. Each step adds halves of two vectors and so halves their number.
TS_INLINE Vec lane_sums(Vec (&x)[kLanes]) {
#pragma GCC unroll 8
  for (int i = 0; i < kLanes / 2; ++i) x[i] = fold<1>(x[2 * i], x[2 * i + 1]);
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) x[i] = fold<2>(x[2 * i], x[2 * i + 1]);
#pragma GCC unroll 2
  for (int i = 0; i < kLanes / 8; ++i) x[i] = fold<4>(x[2 * i], x[2 * i + 1]);
  if constexpr (kLanes == 16) x[0] = fold<8>(x[0], x[1]);
  return x[0];
}

TS_INLINE float sum_of(Vec x) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
}

TS_INLINE float maximum_of(Vec x) {
  float top = x[0];
  for (int i = 1; i < kLanes; ++i) top = x[i] > top ? x[i] : top;
  return top;
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

constexpr int kRowsAhead = 16;

// Part `part` of kParts of a row.
template <int kColumns, int kParts = 1>
TS_INLINE void prefetch_row(const Cached* row, int part = 0) {
  constexpr int kBytes = kColumns * (int)sizeof(Cached), kOfPart = round_up((kBytes + kParts - 1) / kParts, 64);
  const char* from = reinterpret_cast<const char*>(row) + part * kOfPart;
  for (int byte = 0; byte < kOfPart && part * kOfPart + byte < kBytes; byte += 64)
    __builtin_prefetch(from + byte, 0, 2);
}

// Scores of `count` keys with kRows queries, kLanes keys at a time; logits go to w.s. The processor does not see rows
// coming that lie apart: values are fetched while their keys are scored, and the next block's keys while these values
// are added up, so that memory never waits for arithmetic; the first block's, and those in pages, some rows ahead.
template <int kRows>
inline void decode_scores(const TsAttentionArgs& args, const RowGroup& g, const Scaling& scaling, const KeyRows& rows,
                          long long key, int count, Scratch& w) {
  constexpr int kKeys = kAccumulators / kRows >= 4 ? 4 : kAccumulators / kRows >= 2 ? 2 : 1;
  for (int j0 = 0; j0 < count; j0 += kLanes) {
    for (int j = 0; j < kLanes; j += kKeys) {
      const Cached* row[kKeys];
      Vec sum[kKeys][kRows];
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) {
        const int place = (int)min_of(j0 + j + i, count - 1);  // rows that do not exist repeat the last
        row[i] = rows.keys[place];
        prefetch_row<kHeadDimQk>(rows.keys[min_of(place + kRowsAhead, count - 1)]);
        prefetch_row<kHeadDimV>(rows.values[place]);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[i][r] = Vec{};
      }
#pragma GCC unroll 16
      for (int c = 0; c < kChunksQk; c += kKeyVectors) {
        Vec x[kKeys][kKeyVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) {
          if constexpr (kKeysInTurn)
            load_in_turn(row[i], c, x[i]);
          else
            x[i][0] = load_key(row[i], c);
        }
#pragma GCC unroll 2
        for (int half = 0; half < kKeyVectors; ++half) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const Vec q = load(&w.q[r][(c + half) * kLanes]);
#pragma GCC unroll 4
            for (int i = 0; i < kKeys; ++i) sum[i][r] = multiply_add(x[i][half], q, sum[i][r]);
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) w.partial[r][j + i] = sum[i][r];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      Vec x = lane_sums(w.partial[r]);
      if constexpr (kScaled) x = x * load(&w.scales.keys[j0]);
      store(&w.s[r][j0], decode_logit(args, g, scaling, r, key + j0, count - j0, x));
    }
  }
}

// The online softmax of one row over the block; its earlier sums shrink when the maximum grows.
inline void decode_softmax(const TsAttentionArgs& args, const RowGroup& g, long long key, int count, int r,
                           Scratch& w) {
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

// Output sums of kRows rows in kCount chunks of columns, over the block's values. Calls fetch(j) beside value j.
template <int kRows, int kCount, class Fetch>
TS_INLINE void decode_values(const Rows& values, int count, int first_chunk, Fetch fetch, Scratch& w) {
  Vec sum[kRows][kCount];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) sum[r][c] = load(&w.o[r][(first_chunk + c) * kLanes]);
  }
  for (int j = 0; j < count; ++j) {
    Vec p[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) p[r] = splat(w.s[r][j]);
    const Cached* row = values[j];
    fetch(j);
#pragma GCC unroll 16
    for (int c = 0; c < kCount; c += kValueVectors) {
      Vec x[kValueVectors];
      if constexpr (kValuesInTurn)
        load_in_turn(row, first_chunk + c, x);
      else
        x[0] = load_elements<kHeadDimV>(row, first_chunk + c);
#pragma GCC unroll 2
      for (int half = 0; half < kValueVectors; ++half) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[r][c + half] = p[r] * x[half] + sum[r][c + half];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) store(&w.o[r][(first_chunk + c) * kLanes], sum[r][c]);
  }
}

constexpr int divisor_up_to(int number, int limit) {
  int divisor = limit < 1 ? 1 : limit;
  while (number % divisor != 0) --divisor;
  return divisor;
}

template <int kRows>
inline void decode_piece(const TsAttentionArgs& args, const RowGroup& g, long long first, long long last,
                         const Scaling& scaling, Scratch& w) {
  constexpr int kCount = kValueVectors * divisor_up_to(kChunksV / kValueVectors, kAccumulators / kRows / kValueVectors);
  for (long long key = first; key <= last; key += kTileN) {
    const int count = (int)min_of(kTileN, last + 1 - key);
    const KeyRows rows = key_rows(args, g.sequence, g.batch, g.head_kv, key, g.low, count, w.places);
    load_scales(args, g.sequence, g.batch, g.head_kv, key, g.low, count, w.scales);
    decode_scores<kRows>(args, g, scaling, rows, key, count, w);
    for (int r = 0; r < kRows; ++r) decode_softmax(args, g, key, count, r, w);
    for (int c = 0; c < kChunksV; c += kCount)
      decode_values<kRows, kCount>(
          rows.values, count, c,
          [&](int j) {
            if (!kPaged && key + kTileN + j <= last)
              prefetch_row<kHeadDimQk, kChunksV / kCount>(rows.keys[kPaged ? j : kTileN + j], c / kCount);
          },
          w);
  }
}

// The rows' queries as words, rows that fill up a tile as zeros.
inline void load_queries(const TsAttentionArgs& args, const RowGroup& g, const Scaling& scaling, Scratch& w) {
  const Stored* queries = static_cast<const Stored*>(args.q);
  for (int r = 0; r < kMaxRows; ++r) {
    zero_words(w.q[r], kChunksQk * kLanes);
    zero_words(w.o[r], kChunksV * kLanes);
    w.m[r] = -kInfinity;
    w.l[r] = 0;
    if (r >= g.rows) continue;
    float words[kChunksQk * kLanes];
    row_to_words<kHeadDimQk, kElement>(queries + offset_of(args.q_strides, g.batch, g.head[r], g.sequence.first_query) +
                                           g.query[r] * args.q_strides.row,
                                       words);
    for (int c = 0; c < kWordsQk; ++c) w.q[r][place_of_column<kKeysInTurn>(c)] = words[c];
    apply_sign(scaling, w.q[r]);
  }
}

void run_split(const void* args_pointer, long long task, void* scratch) {
  const TsAttentionArgs& args = arguments(args_pointer);
  Scratch& w = *static_cast<Scratch*>(scratch);
  const long long index = task / args.splits, split = task % args.splits;
  RowGroup g = row_group(args, index);
  const Scaling scaling = scaling_of(args);
  load_queries(args, g, scaling, w);
  for (int r = g.rows; r < kMaxRows; ++r) {  // rows that fill up a tile see what row 0 sees and are not kept
    g.query[r] = g.query[0];
    g.head[r] = g.head[0];
    g.visible[r] = g.visible[0];
  }
  // Splits begin at multiples of 16 from where the first key is seen, rounded down to where dropout's counters change.
  const long long begin = g.low - g.low % 8;
  // Pages are of sequences whose lengths differ much: their splits have one length, so that a long one is cut into
  // more.
  const long long keys = kPaged ? args.seqlen_k : g.high + 1 - begin;
  const long long length = ((keys + args.splits - 1) / args.splits + 15) / 16 * 16;
  const long long first = begin + split * length;
  const long long last = min_of(g.high, first + length - 1);
  if (g.rows == 0 || last < first) {
    w.l[0] = 0;
  } else if (g.rows == 1) {
    decode_piece<1>(args, g, first, last, scaling, w);
  } else if (g.rows == 2) {
    decode_piece<2>(args, g, first, last, scaling, w);
  } else if (g.rows <= 4) {
    decode_piece<4>(args, g, first, last, scaling, w);
  } else {
    decode_piece<8>(args, g, first, last, scaling, w);
  }
  for (int r = 0; r < g.rows; ++r) {
    float* partial = partial_result(args, index, split, r);
    partial[0] = w.m[r];
    partial[1] = w.l[r];
    for (int c = 0; c < kChunksV * kLanes; ++c) partial[kLanes + c] = w.o[r][place_of_column<kValuesInTurn>(c)];
  }
}

void run_combine(const void* args_pointer, long long index, void* scratch) {
  const TsAttentionArgs& args = arguments(args_pointer);
  float* sums = static_cast<Scratch*>(scratch)->o[0];
  const RowGroup g = row_group(args, index);
  const float kept = kDropout ? 65536.0f / (float)(65536 - (int)args.drop_threshold) : 1.0f;
  for (int r = 0; r < g.rows; ++r) {
    float top = -kInfinity, sum = 0;
    float sink = -kInfinity;
    if (kSink && args.sink != nullptr) sink = args.sink[g.head[r]] * kToBase2;
    top = sink;
    for (long long split = 0; split < args.splits; ++split) {
      const float m = partial_result(args, index, split, r)[0];
      top = m > top ? m : top;
    }
    if (sink != -kInfinity) sum = exp2_scalar((sink - top) * kUnit);
    zero_words(sums, kChunksV * kLanes);
    for (long long split = 0; split < args.splits; ++split) {
      const float* partial = partial_result(args, index, split, r);
      if (partial[1] == 0) continue;
      const float weight = exp2_scalar((partial[0] - top) * kUnit);
      sum += partial[1] * weight;
      for (int c = 0; c < kChunksV * kLanes; c += kLanes)
        store(sums + c, load(sums + c) + load(partial + kLanes + c) * weight);
    }
    const float scale = sum == 0 ? 0.0f : kept / sum;
    Stored* to = static_cast<Stored*>(args.o) + offset_of(args.o_strides, g.batch, g.head[r], g.sequence.first_query) +
                 g.query[r] * args.o_strides.row;
    for (int c = 0; c < kHeadDimV; c += 8) store_chunk(to + c, *reinterpret_cast<const LooseChunk*>(sums + c) * scale);
    if (kLse && args.lse != nullptr) {
      args.lse[offset_of(args.lse_strides, g.batch, g.head[r], g.sequence.first_query) +
               g.query[r] * args.lse_strides.row] = sum == 0 ? -kInfinity : natural_lse(splat(top), splat(sum))[0];
    }
  }
}

long long scratch_size(const void*) {
  return sizeof(Scratch);
}
