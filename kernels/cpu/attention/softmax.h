// The online softmax of one strip: logits from dot products, the running maximum and sum, probabilities. Queries run
// along the lanes, so every reduction is vertical.

struct BlockOfKeys {
  long long first;  // key of row 0
  int count;        // keys of the block, at most kTileN
};

// A dot product becomes a logit; `lane` is the first lane of the vector within the query block.
template <bool kMasked>
TS_INLINE Vec logit(const Scaling& scaling, const Scratch& w, int lane, long long key, int row, Vec x) {
  if constexpr (kScaled) x = x * w.scales.keys[row];
  if constexpr (kSoftCap) {
    x = tanh(x * scaling.dot) * scaling.capped;
  } else if constexpr (kTransformed) {
    x = x * scaling.dot;
  }
  if constexpr (kBias) x = x + load(&w.bias[row][lane % kStrip]) * kToBase2;
  if constexpr (kAlibi) x = x - load(&w.rows.slope[lane]) * magnitude(load(&w.rows.position[lane]) - (float)key);
  if constexpr (kMasked) {
    const IVec j = splat((int)key);
    x = select((load(&w.rows.low[lane]) <= j) & (load(&w.rows.high[lane]) >= j), x, splat(-kInfinity));
  }
  return x;
}

// The maximum from which exponents are measured: 0 for a lane that has seen nothing, because -inf - -inf is NaN.
TS_INLINE Vec anchor(Vec m) {
  return select(m == -kInfinity, Vec{}, m);
}

// Takes a block's maxima into the running state. The maximum follows only when some lane grew by more than 2^8
// (probabilities up to 256 are harmless in every format used here), so most blocks rescale nothing. True when sums must
// shrink by `factor`.
TS_INLINE bool raise_maximum(const Scaling& scaling, Scratch& w, int strip, const Vec (&top)[kVectors],
                             Vec (&factor)[kVectors]) {
  IVec grew = {};
  float* m = w.m + strip * kStrip;
  for (int v = 0; v < kVectors; ++v) grew |= (top[v] - load(m + v * kLanes)) * scaling.exponent > 8.0f;
  if (!any(grew)) return false;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    float* l = w.l + strip * kStrip + v * kLanes;
    const Vec old = load(m + v * kLanes);
    const Vec now = larger(top[v], old);
    factor[v] = exp2<kExp2Degree>((old - anchor(now)) * scaling.exponent);
    store(m + v * kLanes, now);
    store(l, load(l) * factor[v]);
  }
  return true;
}

// Takes maxima with huge exponents off the scores themselves: `shift` becomes 0 there. Beside a bias a huge one would
// overflow. A product with the scale is rounded in `shift` and not in the exponents, and from 2^31 on the difference
// could reach 2^7, where 2 to its power overflows. This is one comparison for each block.
[[maybe_unused]] inline void take_off_huge(Scratch& w, int strip, int rows, Vec (&shift)[kVectors]) {
  constexpr float kHuge = kBias ? 0x1p127f : 0x1p24f;
  const float* m = w.m + strip * kStrip;
  IVec huge = {};
  for (int v = 0; v < kVectors; ++v) huge |= magnitude(shift[v]) > kHuge;
  if (!any(huge)) return;
  for (int v = 0; v < kVectors; ++v) {
    const Vec top = anchor(load(m + v * kLanes));
    const IVec here = magnitude(shift[v]) > kHuge;
    for (int r = 0; r < rows; ++r) {
      float* s = &w.s[r][v * kLanes];
      store(s, select(here, load(s) - top, load(s)));
    }
    shift[v] = select(here, Vec{}, shift[v]);
  }
}

// Scores become probabilities 2^(exponent * (s - m)); their sums, taken before dropout and before rounding to pairs,
// join l.
inline void exponentiate(const TsAttentionArgs& args, const QueryBlock& q, const Scaling& scaling,
                         const BlockOfKeys& block, Scratch& w, int strip) {
  constexpr int kStep = kDropout ? 8 : 4;
  const int lane0 = strip * kStrip;
  Vec sum[kVectors], shift[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sum[v] = load(w.l + lane0 + v * kLanes);
    shift[v] = anchor(load(w.m + lane0 + v * kLanes)) * scaling.exponent;
  }
  // Rows that fill up the last group would be leftovers: they see nothing.
  const int rows = round_up(block.count, kKeyGroup);
  for (int r = block.count; r < rows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(&w.s[r][v * kLanes], splat(-kInfinity));
  }
  if constexpr (kBias || !kTransformed) take_off_huge(w, strip, rows, shift);
  for (int r0 = 0; r0 < rows; r0 += kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vec p[kStep];
#pragma GCC unroll 8
      for (int r = 0; r < kStep; ++r) {
        p[r] = exp2<kExp2Degree>(load(&w.s[r0 + r][v * kLanes]) * scaling.exponent - shift[v]);
        sum[v] = sum[v] + p[r];
        if constexpr (kScaled) p[r] = p[r] * w.scales.values[r0 + r];
      }
      if constexpr (kDropout) {
        const IVec query = load(&w.rows.query[lane0 + v * kLanes]);
        const IVec batch_head = load(&w.rows.head[lane0 + v * kLanes]) + (int)(q.batch * args.heads_q);
        const PhiloxWords words = dropout_words(args, block.first + r0, (UVec)query, (UVec)batch_head);
        for (int r = 0; r < 8; ++r) p[r] = select(dropout_keeps(words, r, args.drop_threshold), p[r], Vec{});
      }
#pragma GCC unroll 8
      for (int r = 0; r < kStep; r += kPack) {
        if constexpr (kPack == 1) {
          store(&w.s[r0 + r][v * kLanes], p[r]);
        } else {
          store(&w.p[(r0 + r) / 2][v * kLanes], pair_bf16(p[r], p[r + 1]));
        }
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) store(w.l + lane0 + v * kLanes, sum[v]);
}

// Bias entries of a block, transposed like the scores. A row of 16 contiguous entries is read at once where the tensor
// has them.
[[maybe_unused]] inline void stage_bias(const TsAttentionArgs& args, const QueryBlock& q, const BlockOfKeys& block,
                                        Scratch& w, int strip) {
  if (args.bias == nullptr) {
    zero_words(w.bias[0], kTileN * kStrip);
    return;
  }
  const TsStrides& strides = args.bias_strides;
  const float* row[kLanes];
  for (int v = 0; v < kVectors; ++v) {
    for (int r = 0; r < kLanes; ++r) {
      const int lane = strip * kStrip + v * kLanes + r;
      row[r] = args.bias + q.batch * strides.batch + w.rows.head[lane] * strides.head +
               w.rows.query[lane] * strides.row + block.first * strides.column;
    }
    for (int j0 = 0; j0 < block.count; j0 += kLanes) {
      const int n = (int)min_of(kLanes, block.count - j0);
      for (int r = 0; r < kLanes; ++r) {
        if (strides.column == 1 && n == kLanes) {
          store(w.block + r * kLanes, load(row[r] + j0));
        } else {
          for (int j = 0; j < n; ++j) w.block[r * kLanes + j] = row[r][(j0 + j) * strides.column];
        }
      }
      transpose_block(w.block, kLanes, &w.bias[j0][v * kLanes], kStrip);
    }
  }
}
