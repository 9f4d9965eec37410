// Packing A: block by block into the scratch of a blocked kernel's task, once into a skinny kernel's workspace.

// Rows of A: for the vector micro-kernel `stride` words after another, for tiles in groups of 32 rows by 16 words. Rows
// that fill up the last micro-tile, a multiple of `step`, are zeros: their sums are never used, but leftovers may be
// slow denormal numbers.
TS_INLINE float* packed_row(float* to, int row, int word, long long stride) {
  if constexpr (kTiles) return to + row / 32 * (32 * kTileWords) + word / 16 * (32 * 16) + row % 32 * 16 + word % 16;
  return to + row * stride + word;
}

inline void pack_a(const Stored* from, long long leading, int count, int step, int elements, int words, float* to,
                   long long row_stride, [[maybe_unused]] const ScalesOfA& scales) {
  const int stride = kTiles ? 16 : (int)row_stride;
  static_assert(!kTiles || kLanes == 16);
  if constexpr (kRowA) {
    // Row by row: memory is read in one stream.
    for (int r = 0; r < round_up(count, step); ++r) {
      gather_row<kOffset>(from + r * leading, r < count ? elements : 0, words, packed_row(to, r, 0, row_stride),
                          kTiles ? 32 * kLanes : kLanes);
      if constexpr (kScaledA) {
        float* row = packed_row(to, r, 0, row_stride);
        for (int w = 0; r < count && w < words; w += kLanes) store(row + w, load(row + w) * scales.at(r, w));
      }
    }
  } else {
    for (int w = 0; w < words; w += kLanes) {
      for (int r = 0; r < round_up(count, step); r += kLanes) {
        const Stored* const at = from + (long long)w * kPack * leading + r;
        const int rows = (int)min_of(kLanes, round_up(count, step) - r), there = (int)min_of(kLanes, count - r);
        const int left = elements - w * kPack;
        float* const row = packed_row(to, r, w, row_stride);
        if (there == kLanes && left >= kBlockElements) {
          transpose_rows([&](int i) { return raised<kOffset>(words_across(at + i * kPack * leading, leading)); }, row,
                         stride, rows);
        } else {
          transpose_rows(
              [&](int i) {
                const int k = (int)min_of(kPack, left - i * kPack);
                return raised<kOffset>(
                    k > 0 && there > 0 ? words_across_part(at + i * kPack * leading, leading, k, there) : Vec{});
              },
              row, stride, rows);
        }
      }
    }
  }
}
