// The first stage, delta of every row, and the sums over rows that need nothing else: dsink.

// The workspace begins with delta by (batch, head, row), then the shares of dsink by (batch, head, row tile).
TS_INLINE float* deltas(const TsAttentionBackwardArgs& args) {
  return static_cast<float*>(args.workspace);
}
TS_INLINE float* sink_shares(const TsAttentionBackwardArgs& args) {
  return deltas(args) + args.batch * args.heads_q * args.seqlen_q;
}
TS_INLINE long long delta_floats(const TsAttentionBackwardArgs& args) {
  return args.batch * args.heads_q * (args.seqlen_q + row_tiles(args));
}

// A thread's memory is at least two rows of values.
long long delta_tasks(const void* args_pointer) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  return args.batch * args.heads_q * row_tiles(args);
}

void run_delta(const void* args_pointer, long long task, void* memory) {
  const TsAttentionBackwardArgs& args = arguments(args_pointer);
  const long long tiles = row_tiles(args), first = task % tiles * kTileM;
  const Span t = span_of(args, task / tiles / args.heads_q, task / tiles % args.heads_q);
  const long long width = whole_vectors(args.head_dim_v);
  float* const o = static_cast<float*>(memory);
  float* const g = o + width;
  float* delta = deltas(args) + (t.batch * args.heads_q + t.head) * args.seqlen_q;
  float share = 0;
  for (long long i = first; i < min_of(first + kTileM, t.seqlen_q); ++i) {
    const float lse = args.lse[query_place(args, args.lse_strides, t, i)];
    delta[i] = 0;
    if (TS_LSE_LOST(lse)) continue;
    read_row(static_cast<const Stored*>(args.o) + query_place(args, args.o_strides, t, i), args.head_dim_v, 1.0f, o);
    read_row(static_cast<const Stored*>(args.grad.dout) + query_place(args, args.grad.dout_strides, t, i),
             args.head_dim_v, 1.0f, g);
    Vec sums = {};
    for (long long c = 0; c < width; c += kLanes) sums = sums + load(o + c) * load(g + c);
    float sum = 0;
    for (int e = 0; e < kLanes; ++e) sum += sums[e];
    if (args.grad.dlse != nullptr) sum -= args.grad.dlse[query_place(args, args.grad.dlse_strides, t, i)];
    delta[i] = sum;
    if (args.sink != nullptr) share -= exp2<5>(splat((args.sink[t.head] - lse) * kLog2E))[0] * sum;
  }
  sink_shares(args)[task] = share;
}

// dsink of one head: the shares in order.
inline void write_dsink(const TsAttentionBackwardArgs& args, long long head) {
  if (args.grad.dsink == nullptr) return;
  const long long tiles = row_tiles(args);
  double sum = 0;
  for (long long b = 0; b < args.batch; ++b)
    for (long long tile = 0; tile < tiles; ++tile) sum += sink_shares(args)[(b * args.heads_q + head) * tiles + tile];
  args.grad.dsink[head] = (float)sum;
}
