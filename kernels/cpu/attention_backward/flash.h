// Attention backward of fixed head dimensions, five products for each tile. Three stages:
//   1. delta of every row, and each row tile's share of dsink
//   2. tasks of a key head's keys, in several splits: each block of keys is copied once and meets the queries that see
//      it, in every head of its group. dk and dv of the block are whole; dq is the split's own sum
//   3. dq: the splits in order; dsink
// Which task adds what depends on the call alone, so its bits do too.

TS_INLINE long long splits_of(const TsAttentionBackwardArgs& args) {
  return ts_attention_backward_splits(args.batch, args.heads_kv, args.seqlen_k);
}

// dq's sums of a split and head, in the workspace behind what the first stage writes. Strips run over the last row.
TS_INLINE long long rows_of_sums(const TsAttentionBackwardArgs& args) {
  return args.seqlen_q + kQueryRows;
}
TS_INLINE float* sums_of(const TsAttentionBackwardArgs& args, long long split, long long batch, long long head) {
  const long long place = (split * args.batch + batch) * args.heads_q + head;
  return deltas(args) + (delta_floats(args) + 15) / 16 * 16 + place * rows_of_sums(args) * kColumnsQk;
}

long long workspace_size(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return (delta_floats(args) + 16 + splits_of(args) * args.batch * args.heads_q * rows_of_sums(args) * kColumnsQk) *
         (long long)sizeof(float);
}

long long scratch_size(const void*) {
  return sizeof(Scratch);
}

// The second stage.

long long gradient_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return args.batch * args.heads_kv * splits_of(args);
}

// The queries of a head that see a block of keys, tile by tile.
inline void pass_queries(const TsAttentionBackwardArgs& args, const Span& t, long long key, float* dq, Scratch& w) {
  const Range rows = queries_seeing(args, t, key, min_of(key + kTileN, t.seqlen_k) - 1);
  for (long long query = rows.begin; query < rows.end; query += kTileM) {
    const Tile tile = tile_of(args, t, query, rows.end, key);
    stage_queries(args, t, tile, w);
    dot_products<kWordsQk, kRowQk>(tile, w.q, w.kt, w.s);
    dot_products<kWordsV, kRowV>(tile, w.g, w.vt, w.dp);
    if (tile.is_masked()) {
      weigh<true>(args, t, tile, w);
    } else {
      weigh<false>(args, t, tile, w);
    }
    add_to_keys(tile, w);
    add_to_queries(tile, w, dq + query * kColumnsQk);
  }
}

inline void write_keys(const TsAttentionBackwardArgs& args, const Span& t, long long key, Scratch& w) {
  for (long long j = 0; j < min_of(kTileN, t.seqlen_k - key); ++j) {
    float* dk = w.dk + j * kColumnsQk;
    for (int c = 0; c < kColumnsQk; c += kLanes) store(dk + c, load(dk + c) * args.scale);
    write_row(dk, kHeadDimQk, static_cast<Output*>(args.grad.dk) + key_place(args, args.grad.dk_strides, t, key + j));
    write_row(w.dv + j * kColumnsV, kHeadDimV,
              static_cast<Output*>(args.grad.dv) + key_place(args, args.grad.dv_strides, t, key + j));
  }
}

void run_gradients(const void* args_pointer, long long task, void* memory) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  Scratch& w = *static_cast<Scratch*>(memory);
  const long long splits = splits_of(args), per_head = args.heads_q / args.heads_kv;
  const long long split = task % splits, batch = task / splits / args.heads_kv;
  const long long first_head = task / splits % args.heads_kv * per_head;
  for (long long h = 0; h < per_head; ++h)
    clear(sums_of(args, split, batch, first_head + h), rows_of_sums(args) * kColumnsQk);
  // Splits take the blocks of keys in turns, because a mask leaves more queries to some than to others.
  const long long seqlen_k = span_of(args, batch, first_head).seqlen_k;
  for (long long key = split * kTileN; key < seqlen_k; key += splits * kTileN) {
    clear(w.dk, kTileN * kColumnsQk);
    clear(w.dv, kTileN * kColumnsV);
    stage_keys(args, span_of(args, batch, first_head), key, w);
    for (long long head = first_head; head < first_head + per_head; ++head)
      pass_queries(args, span_of(args, batch, head), key, sums_of(args, split, batch, head), w);
    write_keys(args, span_of(args, batch, first_head), key, w);
  }
}

// The third stage: tiles of dq's rows, then the heads of dsink.

long long sum_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return args.batch * args.heads_q * row_tiles(args) + (args.grad.dsink != nullptr ? args.heads_q : 0);
}

void run_sums(const void* args_pointer, long long task, void*) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  const long long tiles = row_tiles(args), dsink = task - args.batch * args.heads_q * tiles;
  if (dsink >= 0) return write_dsink(args, dsink);
  const long long first = task % tiles * kTileM;
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
