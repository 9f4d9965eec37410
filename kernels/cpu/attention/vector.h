// The two GEMMs of an attention block on vector registers, in transposed form: S^T = K Q^T and O^T += V^T P^T.

// Keys [first, last) of a block of `count` keys (its other rows become zeros) as rows of words.
inline void stage_keys(const Rows& from, int first, int last, int count, float* to, int to_stride) {
  for (int j = 0; j < count; ++j) {
    if (j >= first && j < last) {
      row_to_words<kHeadDimQk, kCache>(from[j], to + j * to_stride);
    } else {
      zero_words(to + j * to_stride, kWordsQk);
    }
  }
}

// The same for values, with each kPack keys interleaved into one row of words.
inline void stage_values(const Rows& from, int first, int last, int count, float* to, int to_stride) {
  for (int j = 0; j < count; j += kPack) {
    float* row = to + j / kPack * to_stride;
    const Cached* even = j >= first && j < last ? from[j] : kZeroRow;
    if constexpr (kPack == 1) {
      row_to_words<kHeadDimV, kCache>(even, row);
    } else {
      const Cached* odd = j + 1 >= first && j + 1 < last ? from[j + 1] : kZeroRow;
      rows_to_pairs<kHeadDimV>(even, odd, row);
    }
  }
}

// Copies the block into the thread's scratch, converted or interleaved; keys that no row of the query block sees become
// zeros.
inline void prepare_block(const TsAttentionArgs& args, const QueryBlock& q, const BlockOfKeys& block, long long low,
                          Scratch& w) {
  const KeyRows rows = key_rows(args, q.sequence, q.batch, q.head_kv, block.first, low, block.count, w.places);
  const int first = (int)max_of(0, low - block.first);
  stage_keys(rows.keys, first, block.count, round_up(block.count, kRows), w.k, kKeyStride);
  stage_values(rows.values, first, block.count, round_up(block.count, kPack), w.v, kValueStride);
  load_scales(args, q.sequence, q.batch, q.head_kv, block.first, low, block.count, w.scales);
}

// Scores of one strip against the staged keys, with the block's maxima taken while the scores are still in registers.
template <bool kMasked>
inline void score(const Scaling& scaling, const BlockOfKeys& block, Scratch& w, int strip, Vec (&top)[kVectors]) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) top[v] = splat(-kInfinity);
  for (int r0 = 0; r0 < block.count; r0 += kRows) {
    Vec x[kRows][kVectors];
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) x[r][v] = fresh_zero();
    }
    multiply(x, w.k + r0 * kKeyStride, kKeyStride, 1, w.q[strip][0], kStrip, kWordsQk);
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      if (r0 + r < block.count) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          x[r][v] = logit<kMasked>(scaling, w, strip * kStrip + v * kLanes, block.first + r0 + r, r0 + r, x[r][v]);
          top[v] = larger(x[r][v], top[v]);
          store(&w.s[r0 + r][v * kLanes], x[r][v]);
        }
      }
    }
  }
}

// Output sums of one strip; `factor` is null when nothing shrinks, and the first block of a strip starts from zero.
inline void accumulate(const BlockOfKeys& block, Scratch& w, int strip, const Vec* factor) {
  const float* p = kPack == 1 ? w.s[0] : w.p[0];
  const int steps = (block.count + kPack - 1) / kPack;
  for (int c0 = 0; c0 < kColumns; c0 += kRows) {
    Vec x[kRows][kVectors];
    if (!w.visited[strip]) {
#pragma GCC unroll 32
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) x[r][v] = fresh_zero();
      }
    } else {
#pragma GCC unroll 32
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) x[r][v] = load(&w.o[strip][c0 + r][v * kLanes]);
      }
      if (factor != nullptr) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const Vec f = factor[v];
#pragma GCC unroll 32
          for (int r = 0; r < kRows; ++r) x[r][v] = x[r][v] * f;
        }
      }
    }
    multiply(x, w.v + c0, 1, kValueStride, p, kStrip, steps);
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) store(&w.o[strip][c0 + r][v * kLanes], x[r][v]);
    }
  }
  w.visited[strip] = true;
}

long long no_workspace(const void*) {
  return 0;
}
