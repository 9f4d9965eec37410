// Splitting k: tasks put their partials into the workspace, behind what was packed; a last stage adds the partials in
// order and finishes them.

struct Task {
  long long batch, split, row, column;  // where its share of the sums begins
  int rows, columns;

  Task(const TsGemmArgs& args, const Grid& grid, long long index) {
    const long long row_block = index % grid.row_blocks, rest = index / grid.row_blocks;
    const long long column_block = rest % grid.column_blocks, part = rest / grid.column_blocks;
    row = row_block * grid.rows;
    column = column_block * grid.columns;
    rows = (int)min_of(grid.rows, args.m - row);
    columns = (int)min_of(grid.columns, args.n - column);
    split = part % grid.splits;
    batch = part / grid.splits;
  }
};

constexpr int kReduceRows = 8;  // partials are added up in rectangles of this many rows by kTileN columns
constexpr long long kReduceBytes = kSplitK ? 4ll * (kReduceRows * kTileN + 2 * kLanes) : 0;

long long packed_bytes(const TsGemmArgs& args);

// [split][batch][row][column], columns rounded up.
struct Partials {
  float* data;
  long long columns, batch, split;

  explicit Partials(const TsGemmArgs& args)
      : data(reinterpret_cast<float*>(static_cast<char*>(args.workspace) + packed_bytes(args))),
        columns(up(args.n, kColumnStep)),
        batch(args.m * columns),
        split(args.batch * batch) {}
};

long long workspace_size(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  long long bytes = packed_bytes(args);
  if constexpr (kSplitK) bytes += Grid(args).splits * args.batch * args.m * up(args.n, kColumnStep) * 4;
  return bytes;
}

// Sums of a task, `stride` columns a row, on their way to D or to the partials.
inline void deliver(const TsGemmArgs& args, long long split, const Patch& patch, const float* sums, int stride,
                    [[maybe_unused]] bool stream = false) {
  if constexpr (kSplitK) {
    const Partials partials(args);
    for (int r = 0; r < patch.rows; ++r) {
      float* to = partials.data + split * partials.split + patch.batch * partials.batch +
                  (patch.row + r) * partials.columns + patch.column;
      for (int c = 0; c < patch.columns; c += kLanes) store(to + c, load(sums + r * stride + c));
    }
  } else {
    finish(args, patch, sums, stride, stream);
  }
}

long long multiply_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return Grid(args).tasks(args);
}

[[maybe_unused]] long long reduce_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return args.batch * blocks_of(args.m, kReduceRows) * blocks_of(args.n, kTileN);
}

[[maybe_unused]] void run_reduce(const void* args_pointer, long long index, void* scratch) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Partials partials(args);
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
    const float* from =
        partials.data + patch.batch * partials.batch + (patch.row + r) * partials.columns + patch.column;
    for (int c = 0; c < patch.columns; c += kLanes) {
      Sum sum = load_sum(from + c);
      for (long long s = 1; s < splits; ++s) sum = sum + load_sum(from + s * partials.split + c);
      store_sum(sums + r * kTileN + c, sum);
    }
  }
  finish(args, patch, sums, kTileN);
}
