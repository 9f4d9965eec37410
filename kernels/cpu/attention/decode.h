// Attention for few queries: bound by reading keys and values once. A task takes one row group and one split of the
// keys, and leaves partials (maximum, sum, output sums) in the workspace; a second stage combines them.

long long decode_workspace(const void* args_pointer) {
  return split_tasks(args_pointer) * kMaxRows * kPartial * (long long)sizeof(float);
}

TS_INLINE float* partial_result(const TsAttentionArgs& args, long long group, long long split, int row) {
  return static_cast<float*>(args.workspace) + ((group * args.splits + split) * kMaxRows + row) * kPartial;
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
    for (int c = 0; c < kWordsQk; ++c) w.q[r][place_in_query(c)] = words[c];
    apply_sign(scaling, w.q[r]);
  }
}

// The keys first .. last of a row group; rows beyond the group's fill up kRows. Values are fetched while their keys are
// scored, and the next block's keys while the probabilities and the values are worked on.
template <int kRows>
inline void decode_keys(const TsAttentionArgs& args, const RowGroup& g, long long first, long long last,
                        const Scaling& scaling, Scratch& w) {
  begin_rows(g, w);
  const auto rows_of = [&](long long key, int count) {
    return key_rows(args, g.sequence, g.batch, g.head_kv, key, g.low, count, w.places[(key - first) / kTileN % 2]);
  };
  int count = (int)min_of(kTileN, last + 1 - first);
  KeyRows rows = rows_of(first, count);
  for (RowsAhead<kHeadDimQk> keys{rows.keys, count, count}; keys.row < count;) keys();
  for (long long key = first; key <= last; key += kTileN) {
    const int next_count = (int)max_of(0, min_of(kTileN, last + 1 - key - kTileN));
    const KeyRows next = next_count > 0 ? rows_of(key + kTileN, next_count) : rows;
    load_scales(args, g.sequence, g.batch, g.head_kv, key, g.low, count, w.scales);
    RowsAhead<kHeadDimV> values{rows.values, count, score_steps<kRows>(count)};
    decode_scores<kRows>(args, g, scaling, rows, key, count, values, w);
    const int softmax_rows = kTiles ? g.rows : kRows;
    RowsAhead<kHeadDimQk> keys{next.keys, next_count, softmax_rows + value_steps<kRows>(count)};
    for (int r = 0; r < softmax_rows; ++r) {
      keys();
      decode_softmax(args, g, key, count, r, w);
    }
    decode_values<kRows>(g, rows.values, count, keys, w);
    rows = next;
    count = next_count;
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
  } else if constexpr (kTiles) {
    decode_keys<kMaxRows>(args, g, first, last, scaling, w);
  } else if (g.rows == 1) {
    decode_keys<1>(args, g, first, last, scaling, w);
  } else if (g.rows == 2) {
    decode_keys<2>(args, g, first, last, scaling, w);
  } else if (g.rows <= 4) {
    decode_keys<4>(args, g, first, last, scaling, w);
  } else {
    decode_keys<8>(args, g, first, last, scaling, w);
  }
  for (int r = 0; r < g.rows; ++r) {
    float* partial = partial_result(args, index, split, r);
    partial[0] = w.m[r];
    partial[1] = w.l[r];
    for (int c = 0; c < kChunksV * kLanes; ++c) partial[kLanes + c] = w.o[r][place_in_sums(c)];
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
