// Packing: B once per call into the workspace, A block by block into a task's scratch.

constexpr int kPackPanels = 4;  // panels that one packing task takes

long long pack_b_tasks(const void* args_pointer) {
  const TsGemmArgs& args = arguments(args_pointer);
  return PackedB::members(args) * blocks_of(depth_of(args), kTileK) * blocks_of(args.n, kPackPanels * kPanel);
}

// `count` columns from `from` (column 0, the block's first k) into panels, of `elements` along k.
inline void pack_columns(const Stored* from, long long leading, int count, int elements, int words, float* to) {
  float block[kLanes * kLanes];
  const int width = round_up(count, kColumnStep);
  for (int w = 0; w < words; w += kLanes) {
    const int rows = (int)min_of(kLanes, words - w), left = elements - w * kPack;
    for (int c = 0; c < width; c += kLanes) {
      const int panel = c / kPanel * kPanel, panel_width = (int)min_of(kPanel, width - panel);
      float* at = to + panel * words + w * panel_width + (c - panel);
      if constexpr (kRowB) {
        gather_block<false>(from + (long long)w * kPack * leading + c, leading, count - c, left, at, panel_width, rows);
      } else {
        gather_block<true>(from + c * leading + w * kPack, leading, count - c, left, block, kLanes, kLanes);
        if (rows == kLanes) {
          transpose_block(block, kLanes, at, panel_width);
        } else {
          alignas(64) float turned[kLanes * kLanes];
          transpose_block(block, kLanes, turned, kLanes);
          for (int r = 0; r < rows; ++r) store(at + r * panel_width, load(turned + r * kLanes));
        }
      }
    }
  }
}

// -128 times the sums over k of packed columns: one product with ones.
[[maybe_unused]] inline void sum_columns(const float* packed, int count, int words, int* to) {
  const int width = round_up(count, kColumnStep);
  for (int c = 0; c < width; c += kLanes) {
    const int panel = c / kPanel * kPanel, panel_width = (int)min_of(kPanel, width - panel);
    const float* at = packed + panel * words + (c - panel);
    Vec sum = {};
    for (int w = 0; w < words; ++w)
      sum = multiply_add((Vec)splat(0x01010101), load(at + (long long)w * panel_width), sum);
    store(to + c, (IVec)sum * -128);
  }
}

void run_pack_b(const void* args_pointer, long long task, void*) {
  const TsGemmArgs& args = arguments(args_pointer);
  const PackedB packed(args);
  const long long groups = blocks_of(args.n, kPackPanels * kPanel);
  const long long group = task % groups, block = task / groups % packed.blocks, member = task / groups / packed.blocks;
  const long long column = group * kPackPanels * kPanel;
  const int count = (int)min_of(kPackPanels * kPanel, args.n - column);
  const int elements = (int)min_of(kTileK, args.k - block * kTileK), words = block_words(args.k, block);
  const Stored* from = static_cast<const Stored*>(args.b.data) + member * args.b.batch +
                       (kRowB ? block * kTileK * args.b.leading + column : column * args.b.leading + block * kTileK);
  float* to = static_cast<float*>(args.workspace) + packed.panel(member, block, column);
  pack_columns(from, args.b.leading, count, elements, words, to);
  if constexpr (kOffset)
    sum_columns(to, count, words, static_cast<int*>(args.workspace) + packed.start(member, block, column));
}

// Rows of A, for the vector micro-kernel each kRowWords after another, for tiles as groups of 32 rows by 16 words. Rows
// that fill up the last micro-tile are zeros: their sums are never used, but leftovers may be slow denormal numbers.
TS_INLINE float* packed_row(float* to, int row, int word) {
  if constexpr (kTiles) return to + row / 32 * (32 * kTileWords) + word / 16 * (32 * 16) + row % 32 * 16 + word % 16;
  return to + (long long)row * kRowWords + word;
}

[[maybe_unused]] inline void pack_a(const Stored* from, long long leading, int count, int elements, int words,
                                    float* to) {
  constexpr int kStride = kTiles ? 16 : kRowWords;
  static_assert(!kTiles || kLanes == 16);
  alignas(64) float block[kLanes * kLanes];
  for (int r = 0; r < round_up(count, kRows); r += kLanes) {
    for (int w = 0; w < words; w += kLanes) {
      const int left = elements - w * kPack;
      float* at = packed_row(to, r, w);
      if constexpr (kRowA) {
        gather_block<true>(from + r * leading + w * kPack, leading, count - r, left, at, kStride, kLanes);
      } else {
        gather_block<false>(from + (long long)w * kPack * leading + r, leading, count - r, left, block, kLanes, kLanes);
        transpose_block(block, kLanes, at, kStride);
      }
      if constexpr (kOffset) {
        for (int i = 0; i < kLanes; ++i) store(at + i * kStride, (Vec)((UVec)load(at + i * kStride) ^ 0x80808080u));
      }
    }
  }
}
