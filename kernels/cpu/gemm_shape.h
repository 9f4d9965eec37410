// How a GEMM is cut up. k goes in blocks of kTileK elements, whose sums are carried in fp32 (int32) memory. B is packed
// into panels of kPanel columns, one after another for each block of k, the last one only as wide as it must be. A task
// computes kTileM x kTileN of D, or less when there would be too few tasks: it packs its block of A into its scratch
// (for the second-level cache) and lets every panel of B (in the first- or second-level cache) pass all its rows.

constexpr int kPanelVectors = kTiles ? 2 : 3;
constexpr int kPanel = kTiles ? 32 : kPanelVectors * kLanes;
constexpr int kRows = kTiles ? 32 : kAccumulators / kPanelVectors;  // of a micro-tile
constexpr int kColumnStep = kTiles ? 32 : kLanes;                   // what packed columns are rounded up to
constexpr int kWordStep = kTiles ? 16 : 1;                          // what packed words are rounded up to
constexpr int kTileWords = kTileK / kPack;
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

// k as far as it is read: not at all when alpha is 0.
TS_INLINE long long depth_of(const TsGemmArgs& args) {
  return args.alpha == 0 ? 0 : args.k;
}

// Packed words of block `index` of k.
TS_INLINE int block_words(long long k, long long index) {
  return (int)up(blocks_of(min_of(kTileK, k - index * kTileK), kPack), kWordStep);
}

// Packed B: for every member of the batch, the blocks of k, then (kOffset) a row of column sums for each block.
struct PackedB {
  long long k, columns, blocks, batch_words;

  explicit PackedB(const TsGemmArgs& args)
      : k(args.k), columns(up(args.n, kColumnStep)), blocks(blocks_of(args.k, kTileK)) {
    const long long words = blocks == 0 ? 0 : (blocks - 1) * kTileWords + block_words(k, blocks - 1);
    batch_words = (words + (kOffset ? blocks : 0)) * columns;
  }
  static long long members(const TsGemmArgs& args) { return args.b.batch == 0 ? min_of(args.batch, 1) : args.batch; }
  TS_INLINE long long panel(long long member, long long block, long long column) const {
    return member * batch_words + block * kTileWords * columns + column * block_words(k, block);
  }
  TS_INLINE long long start(long long member, long long block, long long column) const {
    return (member + 1) * batch_words - (blocks - block) * columns + column;
  }
};

TS_INLINE long long packed_b_bytes(const TsGemmArgs& args) {
  return up(PackedB::members(args) * PackedB(args).batch_words * 4, 64);
}

// The grid of tasks. A single thread gets whole tiles. For more, tiles shrink until each has a few, rows first because
// packing A is repeated for every column of tiles.
struct Grid {
  long long rows, columns, row_blocks, column_blocks, splits, blocks_per_split;

  explicit Grid(const TsGemmArgs& args) {
    const long long blocks = max_of(1, blocks_of(depth_of(args), kTileK));
    blocks_per_split = blocks_of(blocks, kSplitK ? max_of(1, args.splits) : 1);
    splits = blocks_of(blocks, blocks_per_split);
    rows = min_of(kTileM, up(max_of(1, args.m), kRows));
    const bool keeps_sums = kForm == Form::skinny || min_of(blocks_per_split, blocks) > 1;  // they take room in caches
    columns = min_of(keeps_sums ? kTileN : 2 * kTileN, up(max_of(1, args.n), kPanel));
    const long long wanted = args.threads > 1 ? 4 * args.threads : 1;
    while (args.batch * splits * blocks_of(args.m, rows) * blocks_of(args.n, columns) < wanted) {
      if (rows > 8 * kRows) {
        rows = up(rows / 2, kRows);
      } else if (columns > 2 * kPanel) {
        columns = up(columns / 2, kPanel);
      } else if (rows > 2 * kRows) {
        rows = up(rows / 2, kRows);
      } else {
        break;
      }
    }
    row_blocks = blocks_of(args.m, rows);
    column_blocks = blocks_of(args.n, columns);
    if (row_blocks > 0) rows = up(blocks_of(args.m, row_blocks), kRows);
    if (column_blocks > 0) columns = up(blocks_of(args.n, column_blocks), kPanel);
    row_blocks = blocks_of(args.m, rows);
    column_blocks = blocks_of(args.n, columns);
  }
  long long tasks(const TsGemmArgs& args) const { return args.batch * splits * row_blocks * column_blocks; }
};

// Whether tasks pack the panels of B that they need themselves, into their scratch: when no other task needs the same.
TS_INLINE bool packs_in_tasks(const TsGemmArgs& args, const Grid& grid) {
  return kForm == Form::blocked && !kPackedB && grid.row_blocks <= 1 && (args.b.batch != 0 || args.batch <= 1);
}

// One step of a task: a micro-tile's sums for one block of k.
struct MicroTile {
  const float* a;      // rows of words
  long long a_stride;  // from one to the next (vectors)
  const float* b;      // packed panel
  const float* start;
  float* sums;  // kRows x kPanel
  int rows, width, words;
  bool first;  // no sums yet
};
