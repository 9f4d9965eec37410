// Packing B: once per call into the workspace, or panel by panel into the scratch of the one task that needs them.

// Columns that one packing task takes: long runs of B's rows, or a task for each thread.
TS_INLINE long long pack_width(const TsGemmArgs& args) {
  if (args.threads <= 1) return 22 * kPanel;
  return max_of(1, min_of(4, args.n / (kPanel * args.threads))) * kPanel;
}

// Words of the longest block.
TS_INLINE long long most_words(const TsGemmArgs& args) {
  return min_of(kTileWords, up(blocks_of(max_of(args.k, args.k2), kPack), kWordStep));
}

// Words of a block that one packing task takes: all, unless threads would be without a task. (Sums of columns are over
// all.)
TS_INLINE long long pack_depth(const TsGemmArgs& args) {
  const long long words = most_words(args);
  if (kOffset || args.threads <= 1) return max_of(1, words);
  constexpr long long kLeast = 64;
  const long long tasks = PackedB::members(args) * depth_of(args).blocks * blocks_of(args.n, pack_width(args));
  return max_of(kLeast, up(words * tasks / (2 * args.threads), kLanes));
}

[[maybe_unused]] long long pack_b_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  if (packs_in_tasks(args, Grid(args))) return 0;
  return PackedB::members(args) * depth_of(args).blocks * blocks_of(args.n, pack_width(args)) *
         blocks_of(most_words(args), pack_depth(args));
}

// How many words ahead B's rows are prefetched, where the multiplication is so fast that packing counts.
constexpr int kWordsAhead = 12;

// `count` columns from `from` (column 0, the block's first k) into panels, of `elements` along k; of the block's words
// those from `first` (a multiple of kLanes) to `end`.
inline void pack_columns(const StoredB* from, long long leading, int count, int elements, int words, float* to,
                         [[maybe_unused]] const ScalesOfB& scales, int first, int end) {
  const int width = round_up(count, kColumnStep);
  const auto place = [&](int w, int c, int panel_width) {
    return to + c / kPanel * kPanel * words + w * panel_width + c % kPanel;
  };
  const auto width_at = [&](int c) { return (int)min_of(kPanel, width - c / kPanel * kPanel); };
  if constexpr (kRowB) {
    // Row by row: memory is read in few streams.
    for (int w = first; w < end; ++w) {
      const StoredB* row = from + (long long)w * kPack * leading;
      const int rows = (int)min_of(kPack, elements - w * kPack);
      for (int c = 0; c < width; c += kPanel) {
        const int panel_width = width_at(c);
        float* at = place(w, c, panel_width);
        if constexpr (kTiles) {  // of a row a panel takes a cache line or half of one
#pragma GCC unroll 4
          for (int r = 0; r < kPack; ++r)
            asm volatile("prefetcht0 %0" : : "m"(row[(kWordsAhead * kPack + r) * leading + c]));
        }
        for (int v = 0; v < panel_width; v += kLanes) {
          const int left = count - c - v;
          store(at + v, rows == kPack && left >= kLanes ? words_across<kElementB>(row + c + v, leading)
                        : rows <= 0 || left <= 0
                            ? Vec{}
                            : words_across_part<kElementB>(row + c + v, leading, rows, (int)min_of(left, kLanes)));
        }
      }
    }
  } else {
    for (int c = 0; c < width; c += kLanes) {
      const int panel_width = width_at(c), there = count - c;
      for (int w = first; w < end; w += kLanes) {
        float* const at = place(w, c, panel_width);
        const int rows = (int)min_of(kLanes, end - w), left = elements - w * kPack;
        const auto element = [&](int i) { return from + (c + i) * leading + w * kPack / kStoredElementsB; };
        if constexpr (kScales != Scales::none) {
          transpose_rows(
              [&](int i) { return scaled_words(element(i), i < there ? left : 0, scales, c + i, w * kPack); }, at,
              panel_width, rows);
        } else if (there >= kLanes && left >= kBlockElements) {
          transpose_rows([&](int i) { return words_along<kElementB>(element(i)); }, at, panel_width, rows);
        } else {
          transpose_rows(
              [&](int i) {
                return i < there && left > 0
                           ? words_along_part<kElementB>(element(i), (int)min_of(left, kBlockElements))
                           : Vec{};
              },
              at, panel_width, rows);
        }
      }
    }
  }
}

// -128 times the sums over k of packed columns: the columns times a row of ones. (A template, because only kernels that
// need it have this multiplication step.)
template <class V = Vec>
void sum_columns(const float* packed, int count, int words, float* to) {
  const int width = round_up(count, kColumnStep);
  for (int c = 0; c < width; c += kLanes) {
    const int panel = c / kPanel * kPanel, panel_width = (int)min_of(kPanel, width - panel);
    const float* at = packed + panel * words + (c - panel);
    Sum sum = {};
    for (int w = 0; w < words; ++w)
      sum = multiply_add((V)splat(0x01010101), (V)load(at + (long long)w * panel_width), sum);
    store_sum(to + c, sum * -128);
  }
}

// Where column `column` of block `block` of k begins in B as it lies.
TS_INLINE const StoredB* stored_b(const TsGemmArgs& args, const Depth& depth, long long member, long long block,
                                  long long column) {
  const TsMatrix& b = matrix_b(args, depth, block);
  const long long k = depth.start(block);
  return static_cast<const StoredB*>(b.data) + member * b.batch +
         (kRowB ? k * b.leading + column : column * b.leading + k / kStoredElementsB);
}

[[maybe_unused]] void run_pack_b(const void* args_pointer, long long task, void*) {
  const TsGemmArgs& args = arguments(args_pointer);
  const PackedB packed(args);
  const long long groups = blocks_of(args.n, pack_width(args)), parts = blocks_of(most_words(args), pack_depth(args));
  const Depth& depth = packed.depth;
  const long long part = task % parts, group = task / parts % groups;
  const long long block = task / parts / groups % depth.blocks, member = task / parts / groups / depth.blocks;
  const long long column = group * pack_width(args);
  const int count = (int)min_of(pack_width(args), args.n - column);
  const int elements = depth.elements(block), words = depth.words(block);
  const int first = (int)min_of(words, part * pack_depth(args)), end = (int)min_of(words, first + pack_depth(args));
  float* to = static_cast<float*>(args.workspace) + packed.panel(member, block, column);
  pack_columns(stored_b(args, depth, member, block, column), matrix_b(args, depth, block).leading, count, elements,
               words, to, ScalesOfB(args, member, column, depth.start(block)), first, end);
  if constexpr (kOffset)
    sum_columns(to, count, words, static_cast<float*>(args.workspace) + packed.start(member, block, column));
}
