// The micro-tile on AMX tiles: 32 rows of packed A by a panel of 32 columns, in four tiles of sums.

inline void multiply_tile(const MicroTile& t) {
  static_assert(kFetched == 16 * kFetchedByWord);
  constexpr int kStride = kPanel * 4;
  float* const lower = t.sums + 16 * kPanel;
  if (t.first) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  } else {
    tile_load<0>(t.sums, kStride);
    tile_load<1>(t.sums + 16, kStride);
    tile_load<2>(lower, kStride);
    tile_load<3>(lower + 16, kStride);
  }
  tile_products_fetching(reinterpret_cast<const char*>(t.a), reinterpret_cast<const char*>(t.b), kStride, t.words / 16,
                         t.next);
  tile_store<0>(t.sums, kStride);
  tile_store<1>(t.sums + 16, kStride);
  tile_store<2>(lower, kStride);
  tile_store<3>(lower + 16, kStride);
}
