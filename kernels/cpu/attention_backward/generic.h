// Attention backward of any head dimension with every trait, all of it known at run time, in float32. Three stages:
//   1. delta of every row, and each row tile's share of dsink
//   2. tasks that own what they write: dk and dv of a tile of keys, over the heads of its group; dbias of a tile of the
//      bias, over what it broadcasts; dq of a tile of queries, and its share of dalibi
//   3. dsink and dalibi: the shares in order
// Each task computes the weights that it needs anew. So no sum is shared, and its bits depend on the call alone.

constexpr int kStrip = 4;  // rows that are multiplied together

struct Sizes {
  long long qk, v;  // head dimensions in whole vectors
};

TS_INLINE Sizes sizes_of(const TsAttentionBackwardArgs& args) {
  return {whole_vectors(args.head_dim_qk), whole_vectors(args.head_dim_v)};
}

// A thread's memory, in floats. A tile has kTileM queries and kTileN keys.
struct Scratch {
  float *q, *g;            // queries and output gradients
  float *k, *v, *kt, *vt;  // keys and values, and both transposed
  float *s, *dp;           // dot products with keys and values; then dx and dt
  float *p, *keep;         // weights as they multiply values; 1 / (1 - drop) or 0 for each key of a row
  float *lse, *delta;
  float *dq, *dk, *dv, *dbias;
};

// Places w's arrays in `memory` and returns how many floats they take.
inline long long place_scratch(const Sizes& size, float* memory, Scratch& w) {
  float* at = memory;
  const auto take = [&](long long floats) {
    float* const begin = at;
    at += floats;
    return begin;
  };
  w.q = take(kTileM * size.qk);
  w.g = take(kTileM * size.v);
  w.k = take(kTileN * size.qk);
  w.v = take(kTileN * size.v);
  w.kt = take(kTileN * size.qk);
  w.vt = take(kTileN * size.v);
  w.s = take(kTileM * kTileN);
  w.dp = take(kTileM * kTileN);
  w.p = take(kTileM * kTileN);
  w.keep = take(kKeepKeys);
  w.lse = take(kTileM);
  w.delta = take(kTileM);
  w.dq = take(kTileM * size.qk);
  w.dk = take(kTileN * size.qk);
  w.dv = take(kTileN * size.v);
  w.dbias = take(kTileM * kTileN);
  return at - memory;
}

long long scratch_size(const void* args_pointer) {
  Scratch w;
  return place_scratch(sizes_of(arguments(args_pointer)), nullptr, w) * (long long)sizeof(float);
}

// Behind what the first stage writes: the shares of dalibi by (batch, head, row tile).
TS_INLINE float* alibi_shares(const TsAttentionBackwardArgs& args) {
  return deltas(args) + delta_floats(args);
}

long long workspace_size(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return (delta_floats(args) + args.batch * args.heads_q * row_tiles(args)) * (long long)sizeof(float);
}

// Queries `first` on with their statistics. Rows beyond the sequence are zeros, which no key sees.
inline void load_queries(const TsAttentionBackwardArgs& args, const Span& t, const Sizes& size, long long first,
                         Scratch& w) {
  const float* delta = deltas(args) + (t.batch * args.heads_q + t.head) * args.seqlen_q;
  for (int r = 0; r < kTileM; ++r) {
    const long long i = first + r;
    if (i < t.seqlen_q) {
      read_row(static_cast<const Stored*>(args.q) + query_place(args, args.q_strides, t, i), args.head_dim_qk, 1.0f,
               w.q + r * size.qk);
      read_row(static_cast<const Stored*>(args.grad.dout) + query_place(args, args.grad.dout_strides, t, i),
               args.head_dim_v, 1.0f, w.g + r * size.v);
      const float lse = args.lse[query_place(args, args.lse_strides, t, i)];
      w.lse[r] = TS_LSE_LOST(lse) ? kInfinity : lse;  // so that such a row's weights are 0
      w.delta[r] = delta[i];
    } else {
      clear(w.q + r * size.qk, size.qk);
      clear(w.g + r * size.v, size.v);
      w.lse[r] = kInfinity;
      w.delta[r] = 0;
    }
  }
}

inline void transpose_tile(const float* from, long long columns, float* to) {
  for (long long c = 0; c < columns; c += kLanes)
    for (int j = 0; j < kTileN; j += kLanes)
      transpose_block(from + j * columns + c, columns, to + c * kTileN + j, kTileN);
}

inline void load_keys(const TsAttentionBackwardArgs& args, const Span& t, const Sizes& size, long long first,
                      Scratch& w) {
  for (int j = 0; j < kTileN; ++j) {
    if (first + j < t.seqlen_k) {
      read_row(static_cast<const Stored*>(args.k) + key_place(args, args.k_strides, t, first + j), args.head_dim_qk,
               1.0f, w.k + j * size.qk);
      read_row(static_cast<const Stored*>(args.v) + key_place(args, args.v_strides, t, first + j), args.head_dim_v,
               1.0f, w.v + j * size.v);
    } else {
      clear(w.k + j * size.qk, size.qk);
      clear(w.v + j * size.v, size.v);
    }
  }
  transpose_tile(w.k, size.qk, w.kt);
  transpose_tile(w.v, size.v, w.vt);
}

// to[r][j] = sum over c of a[r][c] b[c][j].
inline void multiply_tile(const float* a, const float* b, long long depth, float* to) {
  for (int row = 0; row < kTileM; row += kStrip)
    for (int j = 0; j < kTileN; j += 2 * kLanes) {
      Vec sum[kStrip][2] = {};
      for (long long c = 0; c < depth; ++c) {
        const Vec low = load(b + c * kTileN + j), high = load(b + c * kTileN + j + kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kStrip; ++r) {
          const Vec x = splat(a[(row + r) * depth + c]);
          sum[r][0] = sum[r][0] + x * low;
          sum[r][1] = sum[r][1] + x * high;
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) {
        store(to + (row + r) * kTileN + j, sum[r][0]);
        store(to + (row + r) * kTileN + j + kLanes, sum[r][1]);
      }
    }
}

// to[r][c] += sum over `steps` of a[r * a_row + step * a_step] b[step][c].
inline void add_products(const float* a, long long a_row, long long a_step, const float* b, long long columns, int rows,
                         int steps, float* to) {
  for (int row = 0; row < rows; row += kStrip)
    for (long long c = 0; c < columns; c += kLanes) {
      Vec sum[kStrip];
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) sum[r] = load(to + (row + r) * columns + c);
      for (int step = 0; step < steps; ++step) {
        const Vec x = load(b + step * columns + c);
#pragma GCC unroll 4
        for (int r = 0; r < kStrip; ++r) sum[r] = sum[r] + splat(a[(row + r) * a_row + step * a_step]) * x;
      }
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) store(to + (row + r) * columns + c, sum[r]);
    }
}

// From dot products in w.s and w.dp: weights in w.p, dx in w.s, dt in w.dp. Returns the row's sum of dt |i + o - j|.
inline float weigh_row(const TsAttentionBackwardArgs& args, const Span& t, int r, long long i, long long key,
                       Scratch& w) {
  constexpr IVec kIota = TS_LANE_NUMBERS;
  float* s = w.s + r * kTileN;
  float* dp = w.dp + r * kTileN;
  float* p = w.p + r * kTileN;
  long long low = 0, high = t.seqlen_k - 1;
  const long long diagonal = i + t.shift + args.diagonal;
  if (args.window_left >= 0) low = min_of(t.seqlen_k, max_of(0, diagonal - args.window_left));
  if (args.window_right >= 0) high = max_of(-1, min_of(high, diagonal + args.window_right));
  const float slope = args.alibi != nullptr ? args.alibi[t.batch * args.alibi_batch_stride + t.head] : 0.0f;
  const float lse = w.lse[r], delta = w.delta[r];
  if (args.drop_threshold != 0) fill_keep(args, t.batch * args.heads_q + t.head, i, key, w.keep);
  Vec distances = {};
  for (int j = 0; j < kTileN; j += kLanes) {
    Vec x = load(s + j) * args.scale;
    Vec slant = splat(1.0f);  // of the soft cap at x
    if (args.soft_cap > 0) {
      const Vec y = tanh(x / args.soft_cap);
      x = y * args.soft_cap;
      slant = 1.0f - y * y;
    }
    if (args.bias != nullptr) {
      const TsStrides& strides = args.bias_strides;
      const float* row = args.bias + t.batch * strides.batch + t.head * strides.head + i * strides.row;
      float bias[kLanes] = {};
      for (int e = 0; e < kLanes && key + j + e < t.seqlen_k; ++e) bias[e] = row[(key + j + e) * strides.column];
      x = x + load(bias);
    }
    const IVec place = splat((int)(key + j)) + kIota;
    const Vec distance = magnitude(splat((float)(i + t.shift)) - __builtin_convertvector(place, Vec));
    if (slope != 0) x = x - slope * distance;
    const IVec seen = (place >= (int)low) & (place <= (int)high) & (splat(lse) < kInfinity);
    const Vec weight = select(seen, exp2<5>((x - lse) * kLog2E), Vec{});
    const Vec keep = args.drop_threshold != 0 ? load(w.keep + j) : splat(1.0f);
    const Vec dt = select(seen, weight * (load(dp + j) * keep - delta), Vec{});
    store(p + j, weight * keep);
    store(dp + j, dt);
    store(s + j, dt * slant);
    distances = distances + dt * distance;
  }
  float sum = 0;
  for (int e = 0; e < kLanes; ++e) sum += distances[e];
  return sum;
}

// The weights and gradients of the tile of loaded queries from row `first` on and keys from `key` on.
inline float weigh(const TsAttentionBackwardArgs& args, const Span& t, const Sizes& size, long long first,
                   long long key, Scratch& w) {
  multiply_tile(w.q, w.kt, size.qk, w.s);
  multiply_tile(w.g, w.vt, size.v, w.dp);
  float sum = 0;
  for (int r = 0; r < kTileM; ++r) {
    if (first + r < t.seqlen_q) {
      sum += weigh_row(args, t, r, first + r, key, w);
    } else {
      clear(w.s + r * kTileN, kTileN);
      clear(w.dp + r * kTileN, kTileN);
      clear(w.p + r * kTileN, kTileN);
    }
  }
  return sum;
}

// Stage 2: tasks of keys, then of the bias, then of queries.

TS_INLINE long long key_tasks(const TsAttentionBackwardArgs& args) {
  return args.batch * args.heads_kv * key_tiles(args);
}

// How the bias's gradient is cut into tasks. A dimension that is summed over is one task's.
struct BiasTasks {
  long long batches, heads, rows, columns;
};

inline BiasTasks bias_tasks(const TsAttentionBackwardArgs& args) {
  if (args.grad.dbias == nullptr) return {0, 0, 0, 0};
  const TsStrides& s = args.grad.dbias_strides;
  return {s.batch != 0 ? args.batch : 1, s.head != 0 ? args.heads_q : 1, s.row != 0 ? row_tiles(args) : 1,
          s.column != 0 ? key_tiles(args) : 1};
}

TS_INLINE long long count_of(const BiasTasks& tasks) {
  return tasks.batches * tasks.heads * tasks.rows * tasks.columns;
}

long long gradient_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return key_tasks(args) + count_of(bias_tasks(args)) + args.batch * args.heads_q * row_tiles(args);
}

inline void run_keys(const TsAttentionBackwardArgs& args, long long task, const Sizes& size, Scratch& w) {
  const long long tiles = key_tiles(args), key = task % tiles * kTileN, per_head = args.heads_q / args.heads_kv;
  const long long batch = task / tiles / args.heads_kv, head_kv = task / tiles % args.heads_kv;
  Span t = span_of(args, batch, head_kv * per_head);
  const long long count = min_of(kTileN, t.seqlen_k - key);
  if (count <= 0) return;
  load_keys(args, t, size, key, w);
  clear(w.dk, kTileN * size.qk);
  clear(w.dv, kTileN * size.v);
  for (long long h = 0; h < per_head; ++h) {
    t = span_of(args, batch, head_kv * per_head + h);
    const Range rows = queries_seeing(args, t, key, key + count - 1);
    for (long long first = rows.begin / kTileM * kTileM; first < rows.end; first += kTileM) {
      load_queries(args, t, size, first, w);
      weigh(args, t, size, first, key, w);
      add_products(w.p, 1, kTileN, w.g, size.v, kTileN, kTileM, w.dv);
      add_products(w.s, 1, kTileN, w.q, size.qk, kTileN, kTileM, w.dk);
    }
  }
  for (long long j = 0; j < count; ++j) {
    float* dk = w.dk + j * size.qk;
    for (long long c = 0; c < size.qk; c += kLanes) store(dk + c, load(dk + c) * args.scale);
    write_row(dk, args.head_dim_qk,
              static_cast<Output*>(args.grad.dk) + key_place(args, args.grad.dk_strides, t, key + j));
    write_row(w.dv + j * size.v, args.head_dim_v,
              static_cast<Output*>(args.grad.dv) + key_place(args, args.grad.dv_strides, t, key + j));
  }
}

inline void run_bias(const TsAttentionBackwardArgs& args, const BiasTasks& tasks, long long task, const Sizes& size,
                     Scratch& w) {
  const TsStrides& s = args.grad.dbias_strides;
  const long long column_tile = task % tasks.columns, row_tile = task / tasks.columns % tasks.rows;
  const long long head = task / tasks.columns / tasks.rows % tasks.heads;
  const long long batch = task / tasks.columns / tasks.rows / tasks.heads;
  const long long last_batch = s.batch != 0 ? batch + 1 : args.batch, last_head = s.head != 0 ? head + 1 : args.heads_q;
  const long long first_row = row_tile * kTileM, first_key = column_tile * kTileN;
  clear(w.dbias, kTileM * kTileN);
  for (long long b = batch; b < last_batch; ++b)
    for (long long h = head; h < last_head; ++h) {
      const Span t = span_of(args, b, h);
      const long long end_row = s.row != 0 ? min_of(first_row + kTileM, t.seqlen_q) : t.seqlen_q;
      const long long end_key = s.column != 0 ? min_of(first_key + kTileN, t.seqlen_k) : t.seqlen_k;
      for (long long row = first_row; row < end_row; row += kTileM) {
        load_queries(args, t, size, row, w);
        for (long long key = first_key; key < end_key; key += kTileN) {
          load_keys(args, t, size, key, w);
          weigh(args, t, size, row, key, w);
          for (int r = 0; r < kTileM; ++r)
            for (int j = 0; j < kTileN; ++j)
              w.dbias[(s.row != 0 ? r * kTileN : 0) + (s.column != 0 ? j : 0)] += w.dp[r * kTileN + j];
        }
      }
    }
  float* to = args.grad.dbias + batch * s.batch + head * s.head + first_row * s.row + first_key * s.column;
  const long long rows = s.row != 0 ? min_of(kTileM, args.seqlen_q - first_row) : 1;
  const long long columns = s.column != 0 ? min_of(kTileN, args.seqlen_k - first_key) : 1;
  for (long long r = 0; r < rows; ++r)
    for (long long j = 0; j < columns; ++j) to[r * s.row + j * s.column] = w.dbias[r * kTileN + j];
}

inline void run_queries(const TsAttentionBackwardArgs& args, long long task, const Sizes& size, Scratch& w) {
  const long long tiles = row_tiles(args);
  const long long tile = tiles - 1 - task % tiles;  // the last rows of a causal mask see the most
  const long long first = tile * kTileM;
  const Span t = span_of(args, task / tiles / args.heads_q, task / tiles % args.heads_q);
  const long long count = min_of(kTileM, t.seqlen_q - first);
  float share = 0;
  if (count > 0) {
    load_queries(args, t, size, first, w);
    clear(w.dq, kTileM * size.qk);
    const Range keys = keys_seen(args, t, first, first + count - 1);
    // Tiles begin at multiples of their size, so that the counters of dropout do.
    for (long long key = keys.begin / kTileN * kTileN; key < keys.end; key += kTileN) {
      load_keys(args, t, size, key, w);
      share -= weigh(args, t, size, first, key, w);
      add_products(w.s, kTileN, 1, w.k, size.qk, kTileM, kTileN, w.dq);
    }
    for (long long r = 0; r < count; ++r) {
      float* dq = w.dq + r * size.qk;
      for (long long c = 0; c < size.qk; c += kLanes) store(dq + c, load(dq + c) * args.scale);
      write_row(dq, args.head_dim_qk,
                static_cast<Output*>(args.grad.dq) + query_place(args, args.grad.dq_strides, t, first + r));
    }
  }
  alibi_shares(args)[(t.batch * args.heads_q + t.head) * tiles + tile] = share;
}

void run_gradients(const void* args_pointer, long long task, void* memory) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  const Sizes size = sizes_of(args);
  Scratch w;
  place_scratch(size, static_cast<float*>(memory), w);
  const long long of_keys = key_tasks(args);
  if (task < of_keys) return run_keys(args, task, size, w);
  const BiasTasks bias = bias_tasks(args);
  if (task < of_keys + count_of(bias)) return run_bias(args, bias, task - of_keys, size, w);
  run_queries(args, task - of_keys - count_of(bias), size, w);
}

// Stage 3.

long long sum_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return args.grad.dsink != nullptr || args.grad.dalibi != nullptr ? args.heads_q : 0;
}

void run_sums(const void* args_pointer, long long head, void*) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  write_dsink(args, head);
  if (args.grad.dalibi == nullptr) return;
  const long long tiles = row_tiles(args);
  double sum = 0;
  for (long long b = 0; b < args.batch; ++b) {
    for (long long tile = 0; tile < tiles; ++tile) sum += alibi_shares(args)[(b * args.heads_q + head) * tiles + tile];
    if (args.grad.dalibi_batch_stride == 0) continue;
    args.grad.dalibi[b * args.grad.dalibi_batch_stride + head] = (float)sum;
    sum = 0;
  }
  if (args.grad.dalibi_batch_stride == 0) args.grad.dalibi[head] = (float)sum;
}
