// GEMM with few rows of A, bound by reading B: B is read once, as it lies, and never stored. A is packed first, for all
// of k. Where columns of B run along the lanes (row-major B), a task visits its columns once for every few rows of B,
// with the sums in its scratch, so that memory is read in long runs; where k does (column-major B), it takes the dot
// products of a few columns at a time.

constexpr int kGroupRows = 16 / kPack;  // words of k for one visit: sixteen rows of B
constexpr int kSumRows = kTileM + (kOffset ? 1 : 0);
// Words of A that are its elements are read as they lie: along k by dot products, one by one where columns run along
// the lanes.
constexpr bool kWordsAreA = kElement == Element::fp32 && (kRowA || kRowB);
constexpr bool kColumnsOfA = kWordsAreA && !kRowA;

// Workspace: [batch][row][word], zeros beyond k, then the words of k2; kOffset: behind m's rows a row of
// ones, whose sums are B's own.
struct PackedA {
  Depth depth;
  long long second, stride, batch;  // second: where the words of k2 begin in a row

  explicit PackedA(const TsGemmArgs& args)
      : depth(depth_of(args)),
        second(up(blocks_of(depth.sizes[0], kPack), kLanes)),
        stride(second + up(blocks_of(depth.sizes[1], kPack), kLanes) + 16),
        batch(kWordsAreA ? 0 : stride * ((kRowA ? args.m : up(args.m, kLanes)) + (kOffset ? 1 : 0))) {}
  // Where a block's words begin.
  TS_INLINE long long word(long long block) const {
    return (depth.is_second(block) ? second : 0) + depth.start(block) / kPack;
  }
  TS_INLINE float* ones(const TsGemmArgs& args, long long member) const {
    return static_cast<float*>(args.workspace) + (member + 1) * batch - stride;
  }
};

long long packed_bytes(const TsGemmArgs& args) {
  return up(4 * args.batch * PackedA(args).batch, 64);
}

long long scratch_size(const void*) {
  return max_of(4ll * (kSumRows * kTileN + 2 * kLanes), kReduceBytes);
}

long long pack_a_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return kWordsAreA ? 0 : args.batch * depth_of(args).blocks;
}

void run_pack_a(const void* args_pointer, long long task, void*) {
  const TsGemmArgs& args = arguments(args_pointer);
  const PackedA packed(args);
  const Depth& depth = packed.depth;
  const long long member = task / depth.blocks, block = task % depth.blocks, first = depth.start(block);
  const int elements = depth.elements(block), words = (int)blocks_of(elements, kPack);
  const TsMatrix& a = matrix_a(args, depth, block);
  const Stored* from = static_cast<const Stored*>(a.data) + member * a.batch + first * (kRowA ? 1 : a.leading);
  float* to = static_cast<float*>(args.workspace) + member * packed.batch + packed.word(block);
  pack_a(from, a.leading, (int)args.m, 1, elements, words, to, packed.stride, ScalesOfA(args, member, 0, first));
  if constexpr (kOffset) {
    for (int w = 0; w < words; w += kLanes)
      store(packed.ones(args, member) + packed.word(block) + w, (Vec)splat(0x01010101));
  }
}

struct Strip {
  const float* a;              // the first row's word
  long long a_stride, a_step;  // from row to row, and (kColumnsOfA) from word to word
  const StoredB* b;            // the first column's element
  const ScalesOfB* scales;
  long long leading;
  float* sums;  // kTileN columns a row
  int rows, columns, words, elements;
};

// Columns along the lanes: kVectors vectors of columns from `column`, kCount rows, at most kGroupRows words.
template <int kCount, int kVectors>
TS_INLINE void add_group(const Strip& s, int row, int column, int word, int words) {
  Sum c[kCount][kVectors];
  const long long step = kColumnsOfA ? s.a_step : 1;
  const float* a = s.a + row * s.a_stride + word * step;
  const StoredB* b = s.b + (long long)word * kPack * s.leading + column;
  float* sums = s.sums + row * kTileN + column;
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) c[r][v] = load_sum(sums + r * kTileN + v * kLanes);
  }
  const bool whole = s.elements - (word + words) * kPack >= 0 && s.columns - column >= kVectors * kLanes;
  const auto accumulate = [&](int w, auto load_words) {
    Vec x[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) x[v] = load_words(w, v);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      const Vec y = splat(a[r * s.a_stride + w * step]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) c[r][v] = multiply_add(y, x[v], c[r][v]);
    }
  };
  if (whole) {
    for (int w = 0; w < words; ++w)
      accumulate(w, [&](int i, int v) {
        return words_across<kElementB>(b + (long long)i * kPack * s.leading + v * kLanes, s.leading);
      });
  } else {
    for (int w = 0; w < words; ++w)
      accumulate(w, [&](int i, int v) {
        const int rows = (int)min_of(kPack, s.elements - (word + i) * kPack);
        const int count = (int)min_of(kLanes, s.columns - column - v * kLanes);
        return words_across_part<kElementB>(b + (long long)i * kPack * s.leading + v * kLanes, s.leading, rows, count);
      });
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store_sum(sums + r * kTileN + v * kLanes, c[r][v]);
  }
}

// All columns from `column` on: in groups of kVectors vectors, the last of which may be a part, and what is left in
// smaller ones. A single vector would wait for its own sums.
template <int kCount, int kVectors>
TS_INLINE void add_groups(const Strip& s, int row, int column, int word, int words) {
  for (; s.columns - column > (kVectors - 1) * kLanes; column += kVectors * kLanes)
    add_group<kCount, kVectors>(s, row, column, word, words);
  if constexpr (kVectors > 1) add_groups<kCount, kVectors / 2>(s, row, column, word, words);
}

template <int kCount>
[[gnu::noinline]] void add_rows_across(const Strip& s, int row, int word, int words) {
  constexpr int kVectors = kCount >= 8 ? kAccumulators / 8 : 4 < kAccumulators / kCount ? 4 : kAccumulators / kCount;
  add_groups<kCount, kVectors>(s, row, 0, word, words);
}

constexpr int other_lane(int lane, int step) {
  return lane ^ step;
}

// Of each vector the sum of its lanes, kStep apart and farther, in the lane of its number; kCount is a power of two.
template <int kStep, int kCount>
TS_INLINE Sum sums_of_lanes(const Sum (&c)[kCount]) {
  if constexpr (kStep == kLanes) {
    return c[0];
  } else if constexpr (kCount == 1) {
    const Sum one[1] = {c[0] + __builtin_shufflevector(c[0], c[0], TS_LANES(other_lane, kStep))};
    return sums_of_lanes<2 * kStep>(one);
  } else {
    Sum half[kCount / 2];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) half[i] = fold<kStep>(c[2 * i], c[2 * i + 1]);
    return sums_of_lanes<2 * kStep>(half);
  }
}

// k along the lanes: dot products of kCount rows and kColumns columns.
template <int kCount, int kColumns>
TS_INLINE void dot_products(const Strip& s, int row, int column) {
  // Few products share their steps along k out to several sums: one would wait for itself.
  constexpr int kParts = kCount * kColumns >= 8 ? 1 : kCount * kColumns >= 4 ? 2 : 4;
  Sum c[kParts][kCount][kColumns];
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) c[p][r][j] = fresh_zero<Sum>();
    }
  }
  const float* a = s.a + row * s.a_stride;
  const StoredB* b = s.b + column * s.leading;
  const auto multiply_by = [&](Sum(&sums)[kCount][kColumns], auto words_of_a, auto words_of_b) {
    Vec y[kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) y[r] = words_of_a(a + r * s.a_stride);
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const Vec x = words_of_b(j);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) sums[r][j] = multiply_add(y[r], x, sums[r][j]);
    }
  };
  const auto accumulate = [&](int w, auto load_words, int part = 0) {
    multiply_by(
        c[part], [&](const float* from) { return load(from + w); }, [&](int j) { return load_words(w, j); });
  };
  const int whole = s.elements / kBlockElements * kLanes;
  int w = 0;
  const auto place = [&](int i, int j) { return b + j * s.leading + (long long)i * kPack / kStoredElementsB; };
  if constexpr (kWeights) {
    while (w * kPack < s.elements) {
      const int end = (int)min_of(s.elements, s.scales->end_of_block((long long)w * kPack));
      const auto of = [&](int j) { return Weights(s.scales->of_weights(column + j, (long long)w * kPack)); };
      const auto go = [&](const auto&... weights) {
        const Weights* const all[] = {&weights...};
        for (; (w + kLanes) * kPack <= end; w += kLanes)
          accumulate(w, [&](int i, int j) { return all[j]->words(place(i, j)); });
        if (w * kPack < end) {
          accumulate(w, [&](int i, int j) { return weight_words_part(place(i, j), end - i * kPack, *all[j]); });
          w += kLanes;
        }
      };
      if constexpr (kColumns == 1) go(of(0));
      if constexpr (kColumns == 2) go(of(0), of(1));
      if constexpr (kColumns == 4) go(of(0), of(1), of(2), of(3));
      if constexpr (kColumns == 8) go(of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7));
    }
  } else if constexpr (kScales != Scales::none) {
    for (; w * kPack < s.elements; w += kLanes)
      accumulate(w, [&](int i, int j) {
        return scaled_words(place(i, j), s.elements - i * kPack, *s.scales, column + j, (long long)i * kPack);
      });
  } else {
    const auto whole_words = [&](int i, int j) { return words_along<kElementB>(place(i, j)); };
    for (; w + kParts * kLanes <= whole; w += kParts * kLanes) {
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) accumulate(w + p * kLanes, whole_words, p);
    }
    for (; w < whole; w += kLanes) accumulate(w, whole_words);
    if (const int rest = s.elements - w * kPack; rest > 0) {
      multiply_by(
          c[0],
          [&](const float* from) {
            if constexpr (kWordsAreA) return words_along_part<Element::fp32>(from + w, rest);
            return load(from + w);
          },
          [&](int j) { return words_along_part<kElementB>(place(w, j), rest); });
    }
  }
  Sum flat[kCount * kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      flat[r * kColumns + j] = c[0][r][j];
#pragma GCC unroll 4
      for (int p = 1; p < kParts; ++p) flat[r * kColumns + j] = flat[r * kColumns + j] + c[p][r][j];
    }
  }
  alignas(64) float results[kLanes] = {};
  float* const to = s.sums + row * kTileN + column;
  Sum sums = sums_of_lanes<1>(flat);
  if constexpr (kMmPlusMm) {
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) __builtin_memcpy(results + r * kColumns, to + r * kTileN, 4 * kColumns);
    sums = sums + load_sum(results);
  }
  store_sum(results, sums);
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) __builtin_memcpy(to + r * kTileN, results + r * kColumns, 4 * kColumns);
}

constexpr int kDotRows = 4;
constexpr int kDotColumns = kLanes == 16 ? 4 : 2;

template <int kCount, int kColumns>
TS_INLINE void add_columns_along(const Strip& s, int row, int column, int columns) {
  for (; columns >= kColumns; column += kColumns, columns -= kColumns) dot_products<kCount, kColumns>(s, row, column);
  if constexpr (kColumns > 1) add_columns_along<kCount, kColumns / 2>(s, row, column, columns);
}

template <int kCount>
[[gnu::noinline]] void add_rows_along(const Strip& s, int row, int column, int columns) {
  add_columns_along<kCount, kDotColumns*(kCount <= 2 ? 2 : 1)>(s, row, column, columns);
}

// `count` rows, at most kCount.
template <int kCount>
TS_INLINE void add_few_rows_across(const Strip& s, int row, int count, int word, int words) {
  if constexpr (kCount > 1) {
    if (count < kCount) return add_few_rows_across<kCount - 1>(s, row, count, word, words);
  }
  add_rows_across<kCount>(s, row, word, words);
}

// All rows in groups of eight, or dot products in groups of four and the rest by its binary digits, then the row of
// ones.
inline void multiply_strip(const Strip& s, const Strip& ones) {
  if constexpr (kRowB) {
    for (int word = 0; word < s.words; word += kGroupRows) {
      const int words = (int)min_of(kGroupRows, s.words - word);
      for (int row = 0; row < s.rows; row += 8) add_few_rows_across<8>(s, row, s.rows - row, word, words);
      if constexpr (kOffset) add_rows_across<1>(ones, 0, word, words);
    }
  } else {
    constexpr int kColumns = 2 * kDotColumns;
    for (int column = 0; column < s.columns; column += kColumns) {
      const int columns = (int)min_of(kColumns, s.columns - column);
      int row = 0;
      for (; s.rows - row >= kDotRows; row += kDotRows) add_rows_along<kDotRows>(s, row, column, columns);
      if (s.rows - row >= 2) add_rows_along<2>(s, row, column, columns), row += 2;
      if (s.rows - row >= 1) add_rows_along<1>(s, row, column, columns);
      if constexpr (kOffset) add_rows_along<1>(ones, 0, column, columns);
    }
  }
}

void run_multiply(const void* args_pointer, long long index, void* scratch) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const Task task(args, grid, index);
  const PackedA packed(args);
  const Depth& depth = packed.depth;
  Strip s;
  s.a_stride = packed.stride;
  s.sums = static_cast<float*>(scratch);
  s.rows = task.rows;
  s.columns = task.columns;
  Strip ones = s;
  ones.sums = s.sums + task.rows * kTileN;
  ones.rows = 1;
  for (int r = 0; r < task.rows + (kOffset ? 1 : 0); ++r)
    for (int c = 0; c < task.columns; c += kLanes) store(s.sums + r * kTileN + c, Vec{});
  // The task's blocks of k, then those of k2.
  const long long begin = task.split * grid.blocks_per_split, end = min_of(begin + grid.blocks_per_split, depth.blocks);
  for (int addend = 0; addend < (kMmPlusMm ? 2 : 1); ++addend) {
    const long long block = addend == 0 ? begin : max_of(begin, depth.first);
    const long long blocks = (addend == 0 ? min_of(end, depth.first) : end) - block;
    if (blocks <= 0) continue;
    const long long first = depth.start(block);
    const TsMatrix& b = matrix_b(args, depth, block);
    const ScalesOfB scales(args, task.batch, task.column, first);
    if constexpr (kWordsAreA) {
      const TsMatrix& a = matrix_a(args, depth, block);
      s.a = static_cast<const float*>(a.data) + task.batch * a.batch +
            (kRowA ? task.row * a.leading + first : first * a.leading + task.row);
      s.a_stride = kRowA ? a.leading : 1;
      s.a_step = a.leading;
    } else {
      s.a = static_cast<const float*>(args.workspace) + task.batch * packed.batch + task.row * packed.stride +
            packed.word(block);
    }
    s.b = static_cast<const StoredB*>(b.data) + task.batch * b.batch +
          (kRowB ? first * b.leading + task.column : task.column * b.leading + first / kStoredElementsB);
    s.scales = &scales;
    s.leading = b.leading;
    s.elements = (int)min_of(blocks * kTileK, depth.sizes[addend] - first);
    s.words = (int)blocks_of(s.elements, kPack);
    if constexpr (kOffset) ones.a = packed.ones(args, task.batch) + packed.word(block);
    ones.b = s.b;
    ones.scales = s.scales;
    ones.leading = s.leading;
    ones.elements = s.elements;
    ones.words = s.words;
    multiply_strip(s, ones);
  }
  if constexpr (kOffset) {
    for (int r = 0; r < task.rows; ++r) {
      for (int c = 0; c < task.columns; c += kLanes) {
        float* to = s.sums + r * kTileN + c;
        store_sum(to, load_sum(to) - 128 * load_sum(ones.sums + c));
      }
    }
  }
  deliver(args, task.split, {task.batch, task.row, task.column, task.rows, task.columns}, s.sums, kTileN);
}
