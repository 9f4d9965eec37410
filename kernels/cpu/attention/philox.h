// Dropout's random numbers: Philox 4x32-10 (Salmon et al., SC'11), one counter per lane. The rule that ties a counter
// to a (query, key) pair stands in the kernel contract above.

struct PhiloxWords {
  UVec word[4];
};

// The high and low halves of x * factor, lane by lane.
TS_INLINE void multiply_wide(UVec x, unsigned factor, UVec& high, UVec& low) {
  const UVec f = splat(factor);
  const WideVec even = multiply_even(x, f);
  const WideVec odd = multiply_even((UVec)((WideVec)x >> 32), f);
  high = (UVec)((even >> 32) | (odd & 0xffffffff00000000ull));
  low = (UVec)((even & 0xffffffffull) | (odd << 32));
}

inline PhiloxWords philox(UVec c0, UVec c1, UVec c2, UVec c3, unsigned key_low, unsigned key_high) {
  for (int round = 0; round < 10; ++round) {
    UVec high0, low0, high1, low1;
    multiply_wide(c0, 0xD2511F53u, high0, low0);
    multiply_wide(c2, 0xCD9E8D57u, high1, low1);
    c0 = high1 ^ c1 ^ key_low;
    c1 = low1;
    c2 = high0 ^ c3 ^ key_high;
    c3 = low0;
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The words for the eight keys of each lane's group (its keys' number / 8), query and (batch, head).
TS_INLINE PhiloxWords dropout_words(const TsAttentionArgs& args, UVec group, UVec query, UVec batch_head) {
  const unsigned key_low = (unsigned)args.seed;
  const unsigned key_high = (unsigned)(args.seed >> 32) ^ (unsigned)(args.offset >> 32);
  return philox(group, query, batch_head, splat((unsigned)args.offset), key_low, key_high);
}

// The words for eight keys starting at `key`, a multiple of 8, for each lane's query and (batch, head).
TS_INLINE PhiloxWords dropout_words(const TsAttentionArgs& args, long long key, UVec query, UVec batch_head) {
  return dropout_words(args, splat((unsigned)(key / 8)), query, batch_head);
}

// Which lanes keep key number `e` of the eight.
TS_INLINE IVec dropout_keeps(const PhiloxWords& words, int e, unsigned threshold) {
  const UVec pair = words.word[e / 2];
  const UVec value = e % 2 == 0 ? pair & 0xffffu : pair >> 16;
  return (IVec)value >= (int)threshold;
}
