// Which sequence of which head a task works on, what sees what, and where rows lie.

TS_INLINE const TsAttentionBackwardArgs& arguments(const void* args) {
  return *static_cast<const TsAttentionBackwardArgs*>(args);
}

// A sequence of a head.
struct Span {
  long long batch, head, head_kv;
  long long first_query, first_key, seqlen_q, seqlen_k, shift;
};

inline Span span_of(const TsAttentionBackwardArgs& args, long long batch, long long head) {
  Span t = {};
  t.batch = batch;
  t.head = head;
  t.head_kv = head / (args.heads_q / args.heads_kv);
  t.seqlen_q = args.seqlen_q;
  t.seqlen_k = args.seqlen_k;
  if (args.cu_seqlens_q != nullptr) {
    t.first_query = args.cu_seqlens_q[batch];
    t.seqlen_q = args.cu_seqlens_q[batch + 1] - t.first_query;
    t.first_key = args.cu_seqlens_k[batch];
    t.seqlen_k = args.cu_seqlens_k[batch + 1] - t.first_key;
  }
  t.shift = args.mask_bottom_right ? t.seqlen_k - t.seqlen_q : 0;
  return t;
}

struct Range {
  long long begin, end;
};

// What the queries `first` to `last` of a sequence may see, and what may see the keys `first` to `last`.
inline Range keys_seen(const TsAttentionBackwardArgs& args, const Span& t, long long first, long long last) {
  const long long diagonal = t.shift + args.diagonal;
  return {args.window_left >= 0 ? max_of(0, first + diagonal - args.window_left) : 0,
          args.window_right >= 0 ? min_of(t.seqlen_k, last + diagonal + args.window_right + 1) : t.seqlen_k};
}
inline Range queries_seeing(const TsAttentionBackwardArgs& args, const Span& t, long long first, long long last) {
  const long long diagonal = t.shift + args.diagonal;
  return {args.window_right >= 0 ? max_of(0, first - diagonal - args.window_right) : 0,
          args.window_left >= 0 ? min_of(t.seqlen_q, last - diagonal + args.window_left + 1) : t.seqlen_q};
}

TS_INLINE long long place_of(const TsAttentionBackwardArgs& args, const TsStrides& strides, long long batch,
                             long long head, long long first_row, long long row) {
  return (args.cu_seqlens_q != nullptr ? first_row * strides.row : batch * strides.batch) + head * strides.head +
         row * strides.row;
}
TS_INLINE long long query_place(const TsAttentionBackwardArgs& args, const TsStrides& strides, const Span& t,
                                long long i) {
  return place_of(args, strides, t.batch, t.head, t.first_query, i);
}
TS_INLINE long long key_place(const TsAttentionBackwardArgs& args, const TsStrides& strides, const Span& t,
                              long long j) {
  return place_of(args, strides, t.batch, t.head_kv, t.first_key, j);
}

TS_INLINE long long row_tiles(const TsAttentionBackwardArgs& args) {
  return (args.seqlen_q + kTileM - 1) / kTileM;
}
TS_INLINE long long key_tiles(const TsAttentionBackwardArgs& args) {
  return (args.seqlen_k + kTileN - 1) / kTileN;
}

TS_INLINE void clear(float* to, long long count) {
  for (long long c = 0; c < count; ++c) to[c] = 0;
}
