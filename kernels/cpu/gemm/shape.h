// How a GEMM is cut up. k (and k2 behind it) goes in blocks of kTileK elements, whose sums are carried in fp32 (int32)
// memory. B is packed into panels of kPanel columns, one after another for each block of k, the last one only as wide
// as it must be. A task computes kTileM x kTileN of D, or less when there would be too few tasks: it packs its block of
// A into its scratch (for the second-level cache) and lets every panel of B (in the first- or second-level cache) pass
// all its rows.

constexpr int kPanelVectors = kTiles ? 2 : 3;
constexpr int kPanel = kTiles ? 32 : kPanelVectors * kLanes;
constexpr int kRows = kTiles ? 32 : kAccumulators / kPanelVectors;  // of a micro-tile
constexpr int kColumnStep = kTiles ? 32 : kLanes;                   // what packed columns are rounded up to
constexpr int kWordStep = kTiles ? 16 : 1;                          // what packed words are rounded up to
constexpr int kTileWords = kTileK / kPack;
// Words of a panel that all rows of a task pass by at once. Tiles multiply so fast that the second-level cache could
// not deliver both operands: 32 KiB of the panel stay in the first. On vectors the sums would be visited more often for
// nothing.
constexpr int kPassWords = kTiles && kTileWords > 256 ? 256 : kTileWords;
constexpr int kRowWords = kTileWords + (kTiles ? 0 : 16);  // a packed row of A: never a power of two
static_assert(kTileM % kRows == 0 && kTileN % kPanel == 0 && kTileK % (kPack * kLanes) == 0);

TS_INLINE const TsGemmArgs& arguments(const void* pointer) {
  return *static_cast<const TsGemmArgs*>(pointer);
}

TS_INLINE long long blocks_of(long long size, long long block) {
  return (size + block - 1) / block;
}
TS_INLINE long long up(long long size, long long multiple) {
  return blocks_of(size, multiple) * multiple;
}

// The blocks of k, then those of k2: none has elements of both.
struct Depth {
  long long sizes[2];       // k and k2
  long long first, blocks;  // blocks of k, and of k and k2

  Depth(long long k, long long k2)
      : sizes{k, kMmPlusMm ? k2 : 0}, first(blocks_of(k, kTileK)), blocks(first + blocks_of(sizes[1], kTileK)) {}

  TS_INLINE bool is_second(long long block) const { return kMmPlusMm && block >= first; }
  // Its first element of k (or of k2), and how many it has.
  TS_INLINE long long start(long long block) const { return (is_second(block) ? block - first : block) * kTileK; }
  TS_INLINE int elements(long long block) const {
    return (int)min_of(kTileK, sizes[is_second(block) ? 1 : 0] - start(block));
  }
  // Packed words: its own, and those of all blocks before it.
  TS_INLINE int words(long long block) const { return (int)up(blocks_of(elements(block), kPack), kWordStep); }
  TS_INLINE long long words_before(long long block) const {
    const long long missing = is_second(block) && first > 0 ? kTileWords - words(first - 1) : 0;
    return block * kTileWords - missing;
  }
};

// What is read: nothing when alpha is 0.
TS_INLINE Depth depth_of(const TsGemmArgs& args) {
  return args.alpha == 0 ? Depth(0, 0) : Depth(args.k, args.k2);
}

// The matrices that a block is of.
TS_INLINE const TsMatrix& matrix_a(const TsGemmArgs& args, const Depth& depth, long long block) {
  return depth.is_second(block) ? args.a2 : args.a;
}
TS_INLINE const TsMatrix& matrix_b(const TsGemmArgs& args, const Depth& depth, long long block) {
  return depth.is_second(block) ? args.b2 : args.b;
}
TS_INLINE bool batch_shares_b(const TsGemmArgs& args) {
  return args.b.batch == 0 && (!kMmPlusMm || args.b2.batch == 0);
}

// Packed B: for every member of the batch, the blocks of k, then (kOffset) a row of column sums for each block.
struct PackedB {
  Depth depth;
  long long columns, batch_words;

  explicit PackedB(const TsGemmArgs& args) : depth(args.k, args.k2), columns(up(args.n, kColumnStep)) {
    const long long last = depth.blocks - 1, words = last < 0 ? 0 : depth.words_before(last) + depth.words(last);
    batch_words = (words + (kOffset ? depth.blocks : 0)) * columns;
  }
  static long long members(const TsGemmArgs& args) { return batch_shares_b(args) ? min_of(args.batch, 1) : args.batch; }
  TS_INLINE long long panel(long long member, long long block, long long column) const {
    return member * batch_words + depth.words_before(block) * columns + column * depth.words(block);
  }
  TS_INLINE long long start(long long member, long long block, long long column) const {
    return (member + 1) * batch_words - (depth.blocks - block) * columns + column;
  }
};

TS_INLINE long long packed_b_bytes(const TsGemmArgs& args) {
  return up(PackedB::members(args) * PackedB(args).batch_words * 4, 64);
}

constexpr int kLeastPanels = kTiles || kForm == Form::skinny ? 2 : 1;  // of a task

// The grid of tasks. A single thread gets whole tiles. For more, tiles shrink until each thread has a few.
struct Grid {
  long long rows, columns, row_blocks, column_blocks, splits, blocks_per_split;

  explicit Grid(const TsGemmArgs& args) {
    const long long blocks = max_of(1, depth_of(args).blocks);
    blocks_per_split = blocks_of(blocks, kSplitK ? max_of(1, args.splits) : 1);
    splits = blocks_of(blocks, blocks_per_split);
    rows = min_of(kTileM, up(max_of(1, args.m), kRows));
    const bool keeps_sums = kForm == Form::skinny || min_of(blocks_per_split, blocks) > 1;  // they take room in caches
    columns = min_of(keeps_sums ? kTileN : 2 * kTileN, up(max_of(1, args.n), kPanel));
    if (kTiles && args.threads > 1) {  // smaller tasks are shared out more evenly, and threads may share their caches
      rows = min_of(rows, 4 * kRows);
      columns = min_of(columns, 8 * kPanel);
    }
    const long long wanted = args.threads > 1 ? (kSplitK && !kTiles ? 2 : 4) * args.threads : 1;
    while (args.batch * splits * blocks_of(args.m, rows) * blocks_of(args.n, columns) < wanted) {
      const bool can_rows = rows > 2 * kRows, can_columns = columns > kLeastPanels * kPanel;
      if (!can_rows && !can_columns) break;
      if (can_rows && (!can_columns || shrinks_rows(args))) {
        rows = up(rows / 2, kRows);
      } else {
        columns = up(columns / 2, kPanel);
      }
    }
    row_blocks = blocks_of(args.m, rows);
    column_blocks = blocks_of(args.n, columns);
    if (row_blocks > 0) rows = up(blocks_of(args.m, row_blocks), kRows);
    if (column_blocks > 0) columns = up(blocks_of(args.n, column_blocks), kPanel);
    row_blocks = blocks_of(args.m, rows);
    column_blocks = blocks_of(args.n, columns);
  }
  // Tasks of half the rows read all of B once more, those of half the columns all of A, which they also pack. Tiles
  // multiply so fast that packing A counts most.
  TS_INLINE bool shrinks_rows(const TsGemmArgs& args) const {
    if (kTiles) return rows > 8 * kRows || columns <= kLeastPanels * kPanel;
    return blocks_of(args.m, rows) * args.n <= 2 * blocks_of(args.n, columns) * args.m;
  }
  long long tasks(const TsGemmArgs& args) const { return args.batch * splits * row_blocks * column_blocks; }
};

// Whether a task passes all panels by a few rows before the next ones, instead of all rows by a panel. Where k is
// short, writing D is most of the work: a panel begins each row of D anew, and few pages can be written to by turns.
// All panels must then stay in the second-level cache, with as much room as a block of A has.
TS_INLINE bool goes_by_rows(const TsGemmArgs& args, const Grid& grid) {
  constexpr long long kMostWords = 64;
  const Depth depth = depth_of(args);
  const long long words = depth.blocks == 1 ? depth.words(0) : kMostWords + 1;
  return kForm == Form::blocked && words <= kMostWords && grid.splits == 1 && grid.rows > 2 * kRows &&
         grid.columns > kPanel && words * grid.columns <= kTileM * kTileWords;
}

// Floats are words as they lie. Columns of A, and rows of B, can be multiplied where they are, which saves their
// packing.
constexpr bool kFloats = !kTiles && kElement == Element::fp32;
constexpr bool kExactRows = kFloats;   // no rows of zeros are packed: micro-tiles of every number of rows
constexpr bool kMasks = kLanes == 16;  // parts of vectors are read under a mask
constexpr bool kWordsAreB = kForm == Form::blocked && kFloats && kRowB && !kPackedB;

TS_INLINE long long words_of_task(const TsGemmArgs& args) {
  return min_of(kTileWords, max_of(args.k, kMmPlusMm ? args.k2 : 0));
}

// Lines that lie a multiple of 2 KiB apart share two places of the first-level cache: those that are asked for ahead
// would put out one another.
TS_INLINE bool lines_collide(const TsMatrix& matrix) {
  return matrix.leading % 512 == 0;
}

// Where few panels pass them, or they are few. (Rows of A are never packed.)
TS_INLINE bool keeps_columns_of_a(const TsGemmArgs& args, const Grid& grid) {
  constexpr long long kFewPanels = 2, kFewWords = 8192, kMostWords = kMasks ? 1 << 15 : kFewWords;
  const long long size = grid.rows * words_of_task(args);
  if (!kFloats || kRowA) return false;
  if (grid.columns <= kFewPanels * kPanel || size <= kFewWords) return true;
  return size <= kMostWords && !lines_collide(args.a) && !(kMmPlusMm && lines_collide(args.a2));
}

// Where so few rows pass a panel that packing it would cost about as much, or it stays in the first-level cache. Memory
// is read in longer runs where B is packed, so of a large B with long rows many rows must pass a panel.
TS_INLINE bool keeps_rows_of_b(const TsGemmArgs& args, const Grid& grid) {
  constexpr long long kFewRows = (kMasks ? 8 : 4) * kRows, kFewWords = 64, kFewColumns = 2 * kPanel;
  constexpr long long kSmallB = 1 << 18, kSmallByRow = 8192;
  const long long words = words_of_task(args), size = max_of(args.k, args.k2) * args.n;
  if (!kWordsAreB || words <= kFewWords) return kWordsAreB;
  if (grid.rows <= kFewRows) return args.n <= kFewColumns || size <= kSmallB;
  return kMasks && (args.n <= kFewColumns || size <= max_of(kSmallB, kSmallByRow * grid.rows)) &&
         !lines_collide(args.b) && !(kMmPlusMm && lines_collide(args.b2));
}

// Whether tasks pack the panels of B that they need themselves, into their scratch: when no other task needs the same,
// or, where k is split, few do. A task then reads its part of k alone, and nothing that another core has just written.
TS_INLINE bool packs_in_tasks(const TsGemmArgs& args, const Grid& grid) {
  constexpr long long kMostRowBlocks = kSplitK && !kTiles ? 4 : 1;
  if (args.splits == 0) return false;
  if (keeps_rows_of_b(args, grid)) return true;
  return kForm == Form::blocked && !kPackedB && grid.row_blocks <= kMostRowBlocks && !goes_by_rows(args, grid) &&
         (!batch_shares_b(args) || args.batch <= 1);
}

// Of floats that go from registers to D, whether its lines are claimed before the products: short sums do not hide that
// they are waited for. Results that stay in the first-level cache are not.
TS_INLINE bool waits_for_results(const TsGemmArgs& args) {
  constexpr long long kFewWords = 64, kNearResults = 1 << 14;
  return words_of_task(args) <= kFewWords && args.m * args.n > kNearResults;
}

constexpr int kFetchedByWord = kTiles ? 16 : 0;

// A corner of D, and what sums are multiplied by.
struct PlainD {
  void* to;
  long long leading;
  float factor;
  bool streams;  // see streams()
};

// One step of a task: a micro-tile's sums for one pass of k.
struct MicroTile {
  const float* a;              // rows of words
  long long a_stride, a_step;  // from one to the next, and from word to word (vectors)
  const float* b;              // packed panel, or in_place: rows of B, b_step apart
  long long b_step;
  const float* start;
  float* sums;       // kRows x kPanel
  PlainD d;          // where results go at once (vectors), else null
  const char* next;  // of the next panel, what is to be fetched meanwhile: kFetchedByWord bytes for each word
  int rows, columns, words;
  int width;   // columns rounded up to kColumnStep
  bool first;  // no sums yet
  bool in_place;
};
