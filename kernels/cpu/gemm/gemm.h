// Blocked GEMM: pack B, unless it comes packed; multiply; and, when k is split, add up the partials.

constexpr int kSumsPerTile = kRows * kPanel;
constexpr long long kPackedRowsBytes = 4ll * round_up(kTileM, kLanes) * kRowWords;
constexpr long long kPanelBytes =
    (4ll * kPanel * (kTileWords + 1) + 63) / 64 * 64;  // one panel and its row of first sums

// Workspace: packed B.
long long packed_bytes(const TsGemmArgs& args) {
  return kPackedB || packs_in_tasks(args, Grid(args)) ? 0 : packed_b_bytes(args);
}

// Scratch: the block of A; a panel of B packed here; sums of all micro-tiles when k has several blocks, else of two (of
// two panels, where k is passed in parts), one of which is finished while the other is computed.
TS_INLINE bool keeps_sums(const Grid& grid, const TsGemmArgs& args) {
  return min_of(grid.blocks_per_split, depth_of(args).blocks) > 1;
}

TS_INLINE long long tiles_with_sums(const Grid& grid, const TsGemmArgs& args) {
  const long long down = grid.rows / kRows;
  return keeps_sums(grid, args) ? down * (grid.columns / kPanel) : kPassWords < kTileWords ? 2 * down : 2;
}

long long scratch_size(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const long long sums = 4 * (tiles_with_sums(grid, args) * kSumsPerTile + 2 * kLanes);
  return max_of(kPackedRowsBytes + kPanelBytes + sums, kReduceBytes);
}

// Rows of the next micro-tile, where `left` are left. One or two rows have too few sums to keep the multipliers busy,
// so the last two micro-tiles share what would leave so few.
TS_INLINE int next_rows(long long left) {
  constexpr int kTooFew = 2;
  return (int)(kExactRows && left > kRows && left <= kRows + kTooFew ? (left + 1) / 2 : min_of(kRows, left));
}

void run_multiply(const void* args_pointer, long long index, void* scratch) {
  const TsGemmArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const Task task(args, grid, index);
  const PackedB packed(args);
  const long long member = batch_shares_b(args) ? 0 : task.batch;
  const float* packed_data = static_cast<const float*>(kPackedB ? args.b.data : args.workspace);
  float* const rows = static_cast<float*>(scratch);
  float* const panel = rows + kPackedRowsBytes / 4;
  float* const sums = panel + kPanelBytes / 4;
  const bool pack_here = packs_in_tasks(args, grid);
  const int ring = (int)tiles_with_sums(grid, args), down = (int)blocks_of(task.rows, kRows);
  const Depth depth = depth_of(args);
  const long long blocks = depth.blocks;
  const long long first_block = task.split * grid.blocks_per_split;
  const long long end_block = max_of(first_block + 1, min_of(blocks, first_block + grid.blocks_per_split));

  const bool stream = streams(args);
  // Of floats, rows of A are read as they lie: packing costs more than what rows far apart lose in the caches.
  const bool keep_a = kFloats && (kRowA || keeps_columns_of_a(args, grid));
  const bool keep_b = keeps_rows_of_b(args, grid);
  const bool at_once = kPlain && !kTiles && args.beta == 0 && blocks > 0;
  const bool claims = !kSplitK && !stream && !(kFloats && at_once && !waits_for_results(args));
  Patch waiting = {};  // computed, but not yet finished: on AMX both go on side by side
  const float* waiting_sums = nullptr;
  for (long long block = first_block; block < end_block; ++block) {
    const int words = block < blocks ? depth.words(block) : 0;
    const int elements = depth.elements(block);
    const TsMatrix& a = matrix_a(args, depth, block);
    const Stored* from =
        static_cast<const Stored*>(a.data) + task.batch * a.batch +
        (kRowA ? task.row * a.leading + depth.start(block) : depth.start(block) * a.leading + task.row);
    if (words > 0 && !keep_a)
      pack_a(from, a.leading, task.rows,
             kTiles       ? kLanes
             : kExactRows ? 1
                          : kRows / 2,
             elements, words, rows, kRowWords, ScalesOfA(args, task.batch, task.row, depth.start(block)));
    // A micro-tile from word w on of rows r and columns c.
    const auto visit = [&](MicroTile& t, int w, int r, int c, int tile, bool last) {
      t.a = packed_row(rows, r, w, kRowWords);
      t.a_stride = kRowWords;
      t.a_step = 1;
      if constexpr (kFloats) {
        if (keep_a) {
          t.a = reinterpret_cast<const float*>(from) + (kRowA ? r * a.leading + w : w * a.leading + r);
          t.a_stride = kRowA ? a.leading : 1;
          t.a_step = kRowA ? 1 : a.leading;
        }
      }
      t.rows = next_rows(task.rows - r);
      t.sums = sums + tile % ring * kSumsPerTile;
      const int columns = (int)min_of(kPanel, task.columns - c);
      const Patch patch = {task.batch, task.row + r, task.column + c, t.rows, columns};
      if (claims && last) claim(args, patch);
      t.columns = columns;
      t.d = {};
      if (last && at_once)
        t.d = {static_cast<Output*>(args.d) + patch.batch * args.d_batch + patch.row * args.d_leading + patch.column,
               args.d_leading, args.alpha, stream};
      if (words > 0) {
        multiply_tile(t);
        t.next += t.words * kFetchedByWord;
      } else {
        for (int i = 0; i < kSumsPerTile; i += kLanes) store(t.sums + i, Vec{});
      }
      if (!last || at_once) return;
      if (waiting_sums != nullptr) deliver(args, task.split, waiting, waiting_sums, kPanel, stream);
      waiting = patch;
      waiting_sums = t.sums;
    };
    // The panel from column c on; `packs`: it is not yet packed here.
    const auto begin_panel = [&](MicroTile& t, int c, bool packs) {
      const int columns = (int)min_of(kPanel, task.columns - c);
      t.width = round_up(columns, kColumnStep);
      t.words = words;
      t.b_step = t.width;
      t.in_place = false;
      if constexpr (kWordsAreB) t.in_place = keep_b && (kMasks || columns % kLanes == 0);
      const long long leading = matrix_b(args, depth, block).leading;
      if (t.in_place) {
        t.b = reinterpret_cast<const float*>(stored_b(args, depth, member, block, task.column + c));
        t.b_step = leading;
      } else if (pack_here) {
        t.b = panel;
        t.start = panel + kPanel * words;
        if (packs) {
          pack_columns(stored_b(args, depth, member, block, task.column + c), leading, columns, elements, words, panel,
                       ScalesOfB(args, member, task.column + c, depth.start(block)), 0, words);
          if constexpr (kOffset) sum_columns(panel, columns, words, panel + kPanel * words);
        }
      } else {
        t.b = packed_data + packed.panel(member, block, task.column + c);
        if constexpr (kOffset) t.start = packed_data + packed.start(member, block, task.column + c);
      }
      // The next panel; after the last one a harmless place.
      t.next = reinterpret_cast<const char*>(c + kPanel < task.columns ? t.b + (long long)words * kPanel : rows);
    };
    int tile = 0;
    if (goes_by_rows(args, grid)) {
      for (int r = 0; r < task.rows; r += next_rows(task.rows - r)) {
        for (int c = 0; c < task.columns; c += kPanel) {
          MicroTile t;
          begin_panel(t, c, r == 0);
          t.first = true;
          visit(t, 0, r, c, tile++, true);
        }
      }
      continue;
    }
    for (int c = 0; c < task.columns; c += kPanel) {
      MicroTile t;
      begin_panel(t, c, true);
      const float* const b = t.b;
      int w = 0;
      do {
        t.b = b + w * t.b_step;
        t.words = (int)min_of(kPassWords, words - w);
        t.first = block == first_block && w == 0;
        const bool last = block + 1 == end_block && w + t.words == words;
        for (int r = 0, i = 0; r < task.rows; r += t.rows) visit(t, w, r, c, tile + i++, last);
        w += t.words;
      } while (w < words);
      tile += down;
    }
  }
  if (waiting_sums != nullptr) deliver(args, task.split, waiting, waiting_sums, kPanel, stream);
  if (stream) asm volatile("sfence" : : : "memory");
}
