// Attention backward of fixed head dimensions, five products for each tile. Three stages:
//   1. delta of every row, and each row tile's share of dsink
//   2. tasks of a key head's keys, in several splits, and of its group's heads, in several parts: each block of keys is
//      copied once and meets the queries that see it. dq is the split's own sum; dk and dv are the part's own sums, or
//      the results when there is one part
//   3. dq: the splits in order; dk and dv: the parts in order; dsink
// Which task adds what depends on the call alone, so its bits do too.

TS_INLINE long long splits_of(const TsAttentionBackwardArgs& args) {
  return ts_attention_backward_splits(args.batch, args.heads_kv, args.seqlen_k);
}

TS_INLINE long long parts_of(const TsAttentionBackwardArgs& args) {
  return ts_attention_backward_parts(args.batch, args.heads_q, args.heads_kv, args.seqlen_k);
}

// dq's sums of a split and head, in the workspace behind what the first stage writes. Strips run over the last row.
TS_INLINE long long rows_of_sums(const TsAttentionBackwardArgs& args) {
  return args.seqlen_q + kQueryRows;
}
TS_INLINE float* sums_of(const TsAttentionBackwardArgs& args, long long split, long long batch, long long head) {
  const long long place = (split * args.batch + batch) * args.heads_q + head;
  return deltas(args) + (delta_floats(args) + 15) / 16 * 16 + place * rows_of_sums(args) * kColumnsQk;
}

// dk's and dv's sums of a part and key head, side by side, behind those of dq.
constexpr int kColumnsOfKeys = kColumnsQk + kColumnsV;
TS_INLINE float* key_sums_of(const TsAttentionBackwardArgs& args, long long part, long long batch, long long head_kv) {
  const long long place = (part * args.batch + batch) * args.heads_kv + head_kv;
  return sums_of(args, splits_of(args), 0, 0) + place * args.seqlen_k * kColumnsOfKeys;
}

long long workspace_size(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  const long long parts = parts_of(args);
  const float* end = parts > 1 ? key_sums_of(args, parts, 0, 0) : sums_of(args, splits_of(args), 0, 0);
  return (end - deltas(args)) * (long long)sizeof(float);
}

long long scratch_size(const void*) {
  return sizeof(Scratch);
}

// The second stage.

long long gradient_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return args.batch * args.heads_kv * parts_of(args) * splits_of(args);
}

// Where a block's rows of dk or dv will be written, when it is one run of memory; else its sums, which are near anyway.
template <int kDim>
inline const void* rows_of_keys(const TsAttentionBackwardArgs& args, const Span& t, long long key, const void* tensor,
                                const TsStrides& strides, const float* sums) {
  if (strides.row != kDim || parts_of(args) > 1) return sums;
  return static_cast<const Output*>(tensor) + key_place(args, strides, t, key);
}

// The queries of a head that see a block of keys, tile by tile. Meanwhile the next tile's rows come to the L2 cache,
// and in the last tile the rows of the next keys.
inline void pass_queries(const TsAttentionBackwardArgs& args, const Span& t, long long key, long long next_key,
                         float* dq, Scratch& w) {
  const Range rows = queries_seeing(args, t, key, min_of(key + kTileN, t.seqlen_k) - 1);
  const void* const dk = rows_of_keys<kHeadDimQk>(args, t, key, args.grad.dk, args.grad.dk_strides, w.dk);
  const void* const dv = rows_of_keys<kHeadDimV>(args, t, key, args.grad.dv, args.grad.dv_strides, w.dv);
  for (long long query = rows.begin; query < rows.end; query += kTileM) {
    const Tile tile = tile_of(args, t, query, rows.end, key);
    stage_queries(args, t, tile, w);
    const long long next = query + kTileM;
    const bool more = next < rows.end;
    dot_products<kWordsQk, kQueryRowQk>(tile, w.q, w.kt, w.s,
                                        more ? NextRows{stored_queries(args, t, next), args.q_strides.row}
                                             : NextRows{stored_keys(args, t, next_key), args.k_strides.row});
    dot_products<kWordsV, kQueryRowV>(tile, w.g, w.vt, w.dp,
                                      more ? NextRows{stored_gradients(args, t, next), args.grad.dout_strides.row}
                                           : NextRows{stored_values(args, t, next_key), args.v_strides.row});
    if (tile.is_masked()) {
      weigh<true>(args, t, tile, w);
    } else {
      weigh<false>(args, t, tile, w);
    }
    const Fetched fetched = {dq + query * kColumnsQk, dk, dv};
    add_to_keys(tile, fetched, w);
    add_to_queries(tile, fetched, w, dq + query * kColumnsQk);
  }
}

// One row of dk and dv, from its sums.
inline void write_key(const TsAttentionBackwardArgs& args, const Span& t, long long key, float* dk, const float* dv) {
  for (int c = 0; c < kColumnsQk; c += kLanes) store(dk + c, load(dk + c) * args.scale);
  write_row(dk, kHeadDimQk, static_cast<Output*>(args.grad.dk) + key_place(args, args.grad.dk_strides, t, key));
  write_row(dv, kHeadDimV, static_cast<Output*>(args.grad.dv) + key_place(args, args.grad.dv_strides, t, key));
}

TS_INLINE void copy(const float* from, int count, float* to) {
  for (int c = 0; c < count; c += kLanes) store(to + c, load(from + c));
}

void run_gradients(const void* args_pointer, long long task, void* memory) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  Scratch& w = *static_cast<Scratch*>(memory);
  const long long splits = splits_of(args), parts = parts_of(args), group = args.heads_q / args.heads_kv;
  const long long split = task % splits, part = task / splits % parts;
  const long long batch = task / splits / parts / args.heads_kv, head_kv = task / splits / parts % args.heads_kv;
  const long long first_head = head_kv * group + group * part / parts;
  const long long end_head = head_kv * group + group * (part + 1) / parts;
  for (long long head = first_head; head < end_head; ++head)
    clear(sums_of(args, split, batch, head), rows_of_sums(args) * kColumnsQk);
  const Span keys = span_of(args, batch, first_head);
  // Splits take the blocks of keys in turns, because a mask leaves more queries to some than to others.
  for (long long key = split * kTileN; key < keys.seqlen_k; key += splits * kTileN) {
    clear(w.dk, kTileN * kColumnsQk);
    clear(w.dv, kTileN * kColumnsV);
    stage_keys(args, keys, key, w);
    for (long long head = first_head; head < end_head; ++head)
      pass_queries(args, span_of(args, batch, head), key, key + splits * kTileN, sums_of(args, split, batch, head), w);
    for (long long j = 0; j < min_of(kTileN, keys.seqlen_k - key); ++j) {
      float* const dk = w.dk + j * kColumnsQk;
      float* const dv = w.dv + j * kColumnsV;
      if (parts == 1) {
        write_key(args, keys, key + j, dk, dv);
      } else {
        float* const sums = key_sums_of(args, part, batch, head_kv) + (key + j) * kColumnsOfKeys;
        copy(dk, kColumnsQk, sums);
        copy(dv, kColumnsV, sums + kColumnsQk);
      }
    }
  }
}

// The third stage: tiles of dq's rows, blocks of dk's and dv's rows where there are parts, then the heads of dsink.

TS_INLINE long long query_sum_tasks(const TsAttentionBackwardArgs& args) {
  return args.batch * args.heads_q * row_tiles(args);
}
TS_INLINE long long key_sum_tasks(const TsAttentionBackwardArgs& args) {
  return parts_of(args) > 1 ? args.batch * args.heads_kv * key_tiles(args) : 0;
}

long long sum_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return query_sum_tasks(args) + key_sum_tasks(args) + (args.grad.dsink != nullptr ? args.heads_q : 0);
}

inline void sum_queries(const TsAttentionBackwardArgs& args, long long task) {
  const long long tiles = row_tiles(args), first = task % tiles * kTileM;
  const Span t = span_of(args, task / tiles / args.heads_q, task / tiles % args.heads_q);
  for (long long i = first; i < min_of(first + kTileM, t.seqlen_q); ++i) {
    float row[kColumnsQk];
    for (int c = 0; c < kColumnsQk; c += kLanes) {
      Vec sum = {};
      for (long long split = 0; split < splits_of(args); ++split)
        sum = sum + load(sums_of(args, split, t.batch, t.head) + i * kColumnsQk + c);
      store(row + c, sum * args.scale);
    }
    write_row(row, kHeadDimQk, static_cast<Output*>(args.grad.dq) + query_place(args, args.grad.dq_strides, t, i));
  }
}

inline void sum_keys(const TsAttentionBackwardArgs& args, long long task) {
  const long long tiles = key_tiles(args), first = task % tiles * kTileN;
  const long long head_kv = task / tiles % args.heads_kv;
  const Span t = span_of(args, task / tiles / args.heads_kv, head_kv * (args.heads_q / args.heads_kv));
  for (long long j = first; j < min_of(first + kTileN, t.seqlen_k); ++j) {
    float row[kColumnsOfKeys];
    for (int c = 0; c < kColumnsOfKeys; c += kLanes) {
      Vec sum = {};
      for (long long part = 0; part < parts_of(args); ++part)
        sum = sum + load(key_sums_of(args, part, t.batch, head_kv) + j * kColumnsOfKeys + c);
      store(row + c, sum);
    }
    write_key(args, t, j, row, row + kColumnsQk);
  }
}

void run_sums(const void* args_pointer, long long task, void*) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  const long long of_queries = query_sum_tasks(args), of_keys = key_sum_tasks(args);
  if (task < of_queries) return sum_queries(args, task);
  if (task < of_queries + of_keys) return sum_keys(args, task - of_queries);
  write_dsink(args, task - of_queries - of_keys);
}
