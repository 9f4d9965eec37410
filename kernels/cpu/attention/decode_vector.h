// The two products of decode on vectors. Columns run along the lanes, so keys and values are read as they lie.

struct alignas(64) Scratch : RowState {
  Vec partial[kMaxRows][kLanes];
};

typedef unsigned short LaneShorts __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

// kLanes elements of a row as floats; the upper half is zero where the row ends after eight.
template <int kColumns>
TS_INLINE Vec load_elements(const Cached* row, int chunk) {
  const Cached* from = row + chunk * kLanes;
  if constexpr (kColumns % kLanes != 0) {
    if (chunk == kColumns / kLanes) {
      alignas(64) float tail[kLanes] = {};
      store_words(tail, load_floats<kCache, 8>(from));
      return load(tail);
    }
  }
  if constexpr (kScaled) {
    return load_floats<kCache, kLanes>(from);
  } else if constexpr (kElement == Element::fp32) {
    return *reinterpret_cast<const LooseVec*>(from);
  } else if constexpr (kElement == Element::bf16) {
    return (Vec)(__builtin_convertvector(*reinterpret_cast<const LaneShorts*>(from), UVec) << 16);
  } else {
    typedef unsigned short Half __attribute__((vector_size(2 * kLanes)));
    const Half h = *reinterpret_cast<const LaneShorts*>(from);
    Vec x;
    asm("vcvtph2ps %1, %0" : "=v"(x) : "v"(h));
    return x;
  }
}

// bf16 as floats two vectors at a time, which takes one instruction for each: of the 2 kLanes elements from chunk
// `chunk` on those of even places, then those of odd ones. Queries, and sums, lie so too.
constexpr bool kInTurn = kLanes == 16 && kCache == Element::bf16 && kElement == Element::bf16;
constexpr bool kKeysInTurn = kInTurn && kPack == 1 && kHeadDimQk % (2 * kLanes) == 0;
constexpr bool kValuesInTurn = kInTurn && kHeadDimV % (2 * kLanes) == 0;
constexpr int kKeyVectors = kKeysInTurn ? 2 : 1, kValueVectors = kValuesInTurn ? 2 : 1;

TS_INLINE void load_in_turn(const Cached* row, int chunk, Vec* x) {
  const UVec pairs = (UVec) * reinterpret_cast<const LooseIVec*>(row + chunk * kLanes);
  x[0] = (Vec)(pairs << 16);
  x[1] = (Vec)(pairs & 0xffff0000u);
}

constexpr int place_in_turn(int c) {
  return c / (2 * kLanes) * 2 * kLanes + c % 2 * kLanes + c % (2 * kLanes) / 2;
}

// Where word c of a query and column c of its sums lie.
constexpr int place_in_query(int c) {
  return kKeysInTurn ? place_in_turn(c) : c;
}
constexpr int place_in_sums(int c) {
  return kValuesInTurn ? place_in_turn(c) : c;
}

// kLanes words of a key.
TS_INLINE Vec load_key(const Cached* row, int chunk) {
  static_assert(kPack == 1 || !kScaled, "elements of 8 bits become floats");
  if constexpr (kPack == 1) {
    return load_elements<kHeadDimQk>(row, chunk);
  } else {
    const float* words = reinterpret_cast<const float*>(row) + chunk * kLanes;
    if constexpr (kWordsQk % kLanes != 0) {
      if (chunk == kWordsQk / kLanes) {
        alignas(64) float tail[kLanes] = {};
        __builtin_memcpy(tail, words, kWordsQk % kLanes * 4);
        return load(tail);
      }
    }
    return load(words);
  }
}

// Lane l of the result: the sum of x[l]'s lanes. Each step adds halves of two vectors and so halves their number.
TS_INLINE Vec lane_sums(Vec (&x)[kLanes]) {
#pragma GCC unroll 8
  for (int i = 0; i < kLanes / 2; ++i) x[i] = fold<1>(x[2 * i], x[2 * i + 1]);
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) x[i] = fold<2>(x[2 * i], x[2 * i + 1]);
#pragma GCC unroll 2
  for (int i = 0; i < kLanes / 8; ++i) x[i] = fold<4>(x[2 * i], x[2 * i + 1]);
  if constexpr (kLanes == 16) x[0] = fold<8>(x[0], x[1]);
  return x[0];
}

template <int kRows>
constexpr int kKeysAtATime = kAccumulators / kRows >= 4   ? 4
                             : kAccumulators / kRows >= 2 ? 2
                                                          : 1;  // multiplied at a time

template <int kRows>
constexpr int score_steps(int count) {
  return (count + kLanes - 1) / kLanes * (kLanes / kKeysAtATime<kRows>);
}

// Scores of `count` keys with kRows queries, kLanes keys at a time; logits go to w.s. Calls fetch() score_steps(count)
// times.
template <int kRows, class Fetch>
inline void decode_scores(const TsAttentionArgs& args, const RowGroup& g, const Scaling& scaling, const KeyRows& rows,
                          long long key, int count, Fetch& fetch, Scratch& w) {
  constexpr int kKeys = kKeysAtATime<kRows>;
  for (int j0 = 0; j0 < count; j0 += kLanes) {
    for (int j = 0; j < kLanes; j += kKeys) {
      const Cached* row[kKeys];
      Vec sum[kKeys][kRows];
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) {
        const int place = (int)min_of(j0 + j + i, count - 1);  // rows that do not exist repeat the last
        row[i] = rows.keys[place];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[i][r] = Vec{};
      }
      fetch();
#pragma GCC unroll 16
      for (int c = 0; c < kChunksQk; c += kKeyVectors) {
        Vec x[kKeys][kKeyVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) {
          if constexpr (kKeysInTurn)
            load_in_turn(row[i], c, x[i]);
          else
            x[i][0] = load_key(row[i], c);
        }
#pragma GCC unroll 2
        for (int half = 0; half < kKeyVectors; ++half) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const Vec q = load(&w.q[r][(c + half) * kLanes]);
#pragma GCC unroll 4
            for (int i = 0; i < kKeys; ++i) sum[i][r] = multiply_add(x[i][half], q, sum[i][r]);
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) w.partial[r][j + i] = sum[i][r];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      Vec x = lane_sums(w.partial[r]);
      if constexpr (kScaled) x = x * load(&w.scales.keys[j0]);
      store(&w.s[r][j0], decode_logit(args, g, scaling, r, key + j0, count - j0, x));
    }
  }
}

// Output sums of kRows rows in kCount chunks of columns, over the block's values. Calls fetch() `count` times.
template <int kRows, int kCount, class Fetch>
TS_INLINE void decode_columns(const Rows& values, int count, int first_chunk, Fetch& fetch, Scratch& w) {
  Vec sum[kRows][kCount];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) sum[r][c] = load(&w.o[r][(first_chunk + c) * kLanes]);
  }
  for (int j = 0; j < count; ++j) {
    Vec p[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) p[r] = splat(w.s[r][j]);
    const Cached* row = values[j];
    fetch();
#pragma GCC unroll 16
    for (int c = 0; c < kCount; c += kValueVectors) {
      Vec x[kValueVectors];
      if constexpr (kValuesInTurn)
        load_in_turn(row, first_chunk + c, x);
      else
        x[0] = load_elements<kHeadDimV>(row, first_chunk + c);
#pragma GCC unroll 2
      for (int half = 0; half < kValueVectors; ++half) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[r][c + half] = p[r] * x[half] + sum[r][c + half];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) store(&w.o[r][(first_chunk + c) * kLanes], sum[r][c]);
  }
}

constexpr int divisor_up_to(int number, int limit) {
  int divisor = limit < 1 ? 1 : limit;
  while (number % divisor != 0) --divisor;
  return divisor;
}

template <int kRows>
constexpr int kChunksAtATime = kValueVectors* divisor_up_to(kChunksV / kValueVectors,
                                                            kAccumulators / kRows / kValueVectors);

template <int kRows>
constexpr int value_steps(int count) {
  return count * (kChunksV / kChunksAtATime<kRows>);
}

// Adds up the block's values. Calls fetch() value_steps(count) times.
template <int kRows, class Fetch>
inline void decode_values(const RowGroup&, const Rows& values, int count, Fetch& fetch, Scratch& w) {
  for (int c = 0; c < kChunksV; c += kChunksAtATime<kRows>)
    decode_columns<kRows, kChunksAtATime<kRows>>(values, count, c, fetch, w);
}

// Before the first block.
TS_INLINE void begin_rows(const RowGroup&, Scratch&) {}
