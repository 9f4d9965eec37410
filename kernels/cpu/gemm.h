// The stages of a GEMM: pack B; multiply; and, when k is split, add up the pieces.

constexpr int kSumsPerTile = kRows * kPanel;
constexpr int kReduceRows = 8;  // pieces are added up in rectangles of this many rows by kTileN columns

struct Task {
  long long batch, split, row, column;  // where its part of the sums begins
  int rows, columns;

  Task(const TsGemmArgs& args, const Grid& grid, long long index) {
    const long long row_block = index % grid.row_blocks, rest = index / grid.row_blocks;
    const long long column_block = rest % grid.column_blocks, piece = rest / grid.column_blocks;
    row = row_block * grid.rows;
    column = column_block * grid.columns;
    rows = (int)min_of(grid.rows, args.m - row);
    columns = (int)min_of(grid.columns, args.n - column);
    split = piece % grid.splits;
    batch = piece / grid.splits;
  }
};

// Workspace: packed B unless the caller brings it, then the pieces' sums: [split][batch][row][packed column].
TS_INLINE long long packed_bytes(const TsGemmArgs& args) {
  return kPackedB ? 0 : packed_b_bytes(args);
}

struct Pieces {
  float* data;
  long long columns, split, batch;

  Pieces(const TsGemmArgs& args)
      : data(reinterpret_cast<float*>(static_cast<char*>(args.workspace) + packed_bytes(args))),
        columns(up(args.n, kColumnStep)),
        split(args.batch * args.m * columns),
        batch(args.m * columns) {}
};

long long workspace_size(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  long long bytes = packed_bytes(args);
  if constexpr (kSplitK)
    bytes += Grid(args).splits * args.batch * args.m * up(args.n, kColumnStep) * 4 + 2 * kLanes * 4;
  return bytes;
}

// Scratch: the block of A; sums of all micro-tiles when k has several blocks, else of two, one of which is finished
// while the other is computed.
constexpr long long kPackedRowsBytes = 4ll * round_up(kTileM, kLanes) * kRowWords;

TS_INLINE bool keeps_sums(const Grid& grid, const TsGemmArgs& args) {
  return min_of(grid.blocks_per_split, blocks_of(depth_of(args), kTileK)) > 1;
}

long long scratch_size(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const long long tiles = keeps_sums(grid, args) ? (grid.rows / kRows) * (grid.columns / kPanel) : 2;
  const long long multiply = kPackedRowsBytes + 4 * (tiles * kSumsPerTile + 2 * kLanes);
  return kSplitK ? max_of(multiply, 4ll * (kReduceRows * kTileN + 2 * kLanes)) : multiply;
}

inline void deliver(const TsGemmArgs& args, const Task& task, const Patch& patch, const float* sums) {
  if constexpr (kSplitK) {
    const Pieces pieces(args);
    for (int r = 0; r < patch.rows; ++r) {
      float* to = pieces.data + task.split * pieces.split + task.batch * pieces.batch +
                  (patch.row + r) * pieces.columns + patch.column;
      for (int c = 0; c < patch.columns; c += kLanes) store(to + c, load(sums + r * kPanel + c));
    }
  } else {
    finish(args, patch, sums, kPanel);
  }
}

long long multiply_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return Grid(args).tasks(args);
}

void run_multiply(const void* args_pointer, long long index, void* scratch) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const Task task(args, grid, index);
  const PackedB packed(args);
  const long long member = args.b.batch == 0 ? 0 : task.batch;
  const float* packed_data = static_cast<const float*>(kPackedB ? args.b.data : args.workspace);
  const Stored* a =
      static_cast<const Stored*>(args.a.data) + task.batch * args.a.batch + task.row * (kRowA ? args.a.leading : 1);
  float* const rows = static_cast<float*>(scratch);
  float* const sums = rows + kPackedRowsBytes / 4;
  const bool keep = keeps_sums(grid, args);
  const long long blocks = blocks_of(depth_of(args), kTileK);
  const long long first_block = task.split * grid.blocks_per_split;
  const long long end_block = max_of(first_block + 1, min_of(blocks, first_block + grid.blocks_per_split));

  Patch waiting = {};  // computed, but not yet finished: on AMX both go on side by side
  const float* waiting_sums = nullptr;
  for (long long block = first_block; block < end_block; ++block) {
    const int words = block < blocks ? block_words(args.k, block) : 0;
    const int elements = (int)min_of(kTileK, args.k - block * kTileK);
    if (words > 0)
      pack_a(a + block * kTileK * (kRowA ? 1 : args.a.leading), args.a.leading, task.rows, elements, words, rows);
    int tile = 0;
    for (int c = 0; c < task.columns; c += kPanel) {
      const int columns = (int)min_of(kPanel, task.columns - c);
      MicroTile t;
      t.width = round_up(columns, kColumnStep);
      t.words = words;
      t.first = block == first_block;
      t.b = packed_data + packed.panel(member, block, task.column + c);
      if constexpr (kOffset) t.start = packed_data + packed.start(member, block, task.column + c);
      for (int r = 0; r < task.rows; r += kRows, ++tile) {
        t.a = packed_row(rows, r, 0);
        t.rows = (int)min_of(kRows, task.rows - r);
        t.sums = sums + (keep ? tile : tile & 1) * kSumsPerTile;
        if (words > 0) {
          multiply_tile(t);
        } else {
          for (int i = 0; i < kSumsPerTile; i += kLanes) store(t.sums + i, Vec{});
        }
        if (block + 1 < end_block) continue;
        if (waiting_sums != nullptr) deliver(args, task, waiting, waiting_sums);
        waiting = {task.batch, task.row + r, task.column + c, t.rows, columns};
        waiting_sums = t.sums;
      }
    }
  }
  if (waiting_sums != nullptr) deliver(args, task, waiting, waiting_sums);
}

[[maybe_unused]] long long reduce_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return args.batch * blocks_of(args.m, kReduceRows) * blocks_of(args.n, kTileN);
}

[[maybe_unused]] void run_reduce(const void* args_pointer, long long index, void* scratch) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Pieces pieces(args);
  const long long splits = Grid(args).splits;
  const long long row_blocks = blocks_of(args.m, kReduceRows), column_blocks = blocks_of(args.n, kTileN);
  Patch patch;
  patch.batch = index / column_blocks / row_blocks;
  patch.row = index / column_blocks % row_blocks * kReduceRows;
  patch.column = index % column_blocks * kTileN;
  patch.rows = (int)min_of(kReduceRows, args.m - patch.row);
  patch.columns = (int)min_of(kTileN, args.n - patch.column);
  float* const sums = static_cast<float*>(scratch);
  for (int r = 0; r < patch.rows; ++r) {
    const float* from = pieces.data + patch.batch * pieces.batch + (patch.row + r) * pieces.columns + patch.column;
    for (int c = 0; c < patch.columns; c += kLanes) {
      Vec sum = load(from + c);
      for (long long s = 1; s < splits; ++s) {
        const Vec x = load(from + s * pieces.split + c);
        sum = kInteger ? (Vec)((IVec)sum + (IVec)x) : sum + x;
      }
      store(sums + r * kTileN + c, sum);
    }
  }
  finish(args, patch, sums, kTileN);
}
