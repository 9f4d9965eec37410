// Dropout, as a factor for each key of a row.

constexpr int kKeepKeys = round_up(kTileN, 8 * kLanes);  // one draw is eight keys of every lane

// For the keys of a block from `key` on, a multiple of 8: what their weights in a row are multiplied with,
// 1 / (1 - drop) or 0. `keep` has kKeepKeys numbers.
[[maybe_unused]] inline void fill_keep(const TsAttentionBackwardArgs& args, long long batch_head, long long query,
                                       long long key, float* keep) {
  constexpr IVec kIota = TS_LANE_NUMBERS;
  const Vec kept = splat(65536.0f / (float)(65536 - (int)args.drop_threshold));
  for (int j = 0; j < kTileN; j += 8 * kLanes) {
    const PhiloxWords words = dropout_words(args, splat((unsigned)((key + j) / 8)) + (UVec)kIota,
                                            splat((unsigned)query), splat((unsigned)batch_head));
    float factors[8][kLanes];
    for (int e = 0; e < 8; ++e) store(factors[e], select(dropout_keeps(words, e, args.drop_threshold), kept, Vec{}));
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < 8; ++e) keep[j + 8 * lane + e] = factors[e][lane];
  }
}
