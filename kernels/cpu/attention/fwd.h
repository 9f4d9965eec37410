// Attention forward: one task computes one query block. The keys and values it sees pass by in blocks; every strip of
// queries is brought up to date with a block before the next one comes.

// Divides by the sums, turns O^T back into rows and writes the rows that exist, and their lse.
inline void finish(const TsAttentionArgs& args, const QueryBlock& q, const Scaling& scaling, Scratch& w) {
  Stored* output = static_cast<Stored*>(args.o);
  const float kept = kDropout ? 65536.0f / (float)(65536 - (int)args.drop_threshold) : 1.0f;
  for (int lane0 = 0; lane0 < w.rows.count; lane0 += kLanes) {
    const int strip = lane0 / kStrip;
    Vec m = anchor(load(w.m + lane0));  // in units of kUnit
    if constexpr (!kBias) m = m * scaling.exponent;
    Vec sum = load(w.l + lane0);
    Vec weight = splat(kept);
    if constexpr (kSink) {
      float logits[kLanes];
      for (int r = 0; r < kLanes; ++r)
        logits[r] = args.sink != nullptr ? args.sink[w.rows.head[lane0 + r]] * kToBase2 : -kInfinity;
      const Vec sink = load(logits);
      const IVec blind = sum == 0.0f;  // not of a NaN, which stays one
      const Vec top = anchor(larger(sink, select(blind, splat(-kInfinity), m)));
      const Vec shrink = exp2<5>((m - top) * kUnit);
      const Vec shrunk = select(blind, Vec{}, sum * shrink);
      weight = weight * shrink;
      sum = shrunk + exp2<5>((sink - top) * kUnit);
      m = top;
    }
    const IVec empty = sum == 0.0f;
    const Vec scale = weight / sum;
    if constexpr (kLse) {
      float lse[kLanes];
      store(lse, select(empty, splat(-kInfinity), natural_lse(m, sum)));
      for (int r = 0; args.lse != nullptr && r < kLanes && lane0 + r < w.rows.count; ++r) {
        args.lse[offset_of(args.lse_strides, q.batch, w.rows.head[lane0 + r], q.sequence.first_query) +
                 w.rows.query[lane0 + r] * args.lse_strides.row] = lse[r];
      }
    }
    const IVec blank = empty | splat(w.visited[strip] ? 0 : -1);
    Stored* to[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      to[r] = output + offset_of(args.o_strides, q.batch, w.rows.head[lane0 + r], q.sequence.first_query) +
              w.rows.query[lane0 + r] * args.o_strides.row;
    }
    for (int c0 = 0; c0 < kHeadDimV; c0 += kLanes) {
      for (int c = 0; c < kLanes; ++c) {
        float* row = &w.o[strip][c0 + c][lane0 % kStrip];
        store(row, select(blank, Vec{}, load(row) * scale));
      }
      transpose_block(&w.o[strip][c0][lane0 % kStrip], kStrip, w.block, kLanes);
      for (int r = 0; r < kLanes && lane0 + r < w.rows.count; ++r) {
        for (int c = 0; c < kLanes && c0 + c < kHeadDimV; c += 8) {
          store_chunk(to[r] + c0 + c, *reinterpret_cast<const LooseChunk*>(w.block + r * kLanes + c));
        }
      }
    }
  }
}

// Brings one strip up to date with the staged block.
TS_INLINE void advance(const TsAttentionArgs& args, const QueryBlock& q, const Scaling& scaling,
                       const BlockOfKeys& block, Scratch& w, int strip) {
  const QueryRows& rows = w.rows;
  const long long last = block.first + block.count - 1;
  if (block.first > rows.max_high[strip] || last < rows.min_low[strip]) return;
  if constexpr (kBias) stage_bias(args, q, block, w, strip);
  Vec top[kVectors], factor[kVectors];
  bool masked = false;
  if constexpr (kMask) {
    masked = block.first < rows.max_low[strip] || last > rows.min_high[strip];
    if (masked) score<true>(scaling, block, w, strip, top);
  }
  if (!masked) score<false>(scaling, block, w, strip, top);
  const bool shrinks = raise_maximum(scaling, w, strip, top, factor);
  exponentiate(args, q, scaling, block, w, strip);
  accumulate(block, w, strip, shrinks ? factor : nullptr);
}

void run_query_block(const void* args_pointer, long long task, void* scratch) {
  const TsAttentionArgs& args = arguments(args_pointer);
  Scratch& w = *static_cast<Scratch*>(scratch);
  const QueryBlock q = query_block(args, task);
  if (!describe_rows(args, q, w.rows)) return;
  const Scaling scaling = scaling_of(args);
  pack_queries(args, q, scaling, w);
  for (int lane = 0; lane < kTileM; ++lane) w.m[lane] = -kInfinity, w.l[lane] = 0;
  long long low = q.sequence.seqlen_k, high = -1;
  for (int strip = 0; strip < kStrips; ++strip) {
    w.visited[strip] = false;
    low = min_of(low, w.rows.min_low[strip]);
    high = max_of(high, w.rows.max_high[strip]);
  }
  for (long long first = low - low % kKeyGroup; first <= high; first += kTileN) {
    const BlockOfKeys block = {first, (int)min_of(kTileN, high + 1 - first)};
    prepare_block(args, q, block, low, w);
    for (int strip = 0; strip < kStrips; ++strip) advance(args, q, scaling, block, w, strip);
  }
  finish(args, q, scaling, w);
}

long long scratch_size(const void*) {
  return sizeof(Scratch);
}
