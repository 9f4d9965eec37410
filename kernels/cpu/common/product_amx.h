// AMX tiles as statements. The compilers' own macros name no memory, so stores before a load may be dropped or moved;
// these clobber memory. A tile is 16 rows of 64 bytes: of A 16 rows of 32 bf16 or 64 int8, of B 16 rows of 16
// pairs or fours, of C 16x16 float or int.

template <int kTile>
TS_INLINE void tile_load(const void* from, long long stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
}

template <int kTile>
TS_INLINE void tile_store(void* to, long long stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(stride) : "memory");
}

template <int kTile>
TS_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <int kC, int kA, int kB>
TS_INLINE void tile_dot() {
  if constexpr (kInstruction == Instruction::amx_int8) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  } else {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
}

constexpr int kTileBytes = 1024;
constexpr int kTileRow = 64;

// Every tile is full: palette 1, eight tiles of 16 rows of 64 bytes.
struct TileConfig {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
alignas(64) constexpr TileConfig kTileConfig;

// A thread's tiles are configured once, around all its tasks: the instruction takes longer than a small GEMM.
[[maybe_unused]] void configure_tiles() {
  asm volatile("ldtilecfg %0" : : "m"(kTileConfig) : "memory");
}
[[maybe_unused]] void release_tiles() {
  asm volatile("tilerelease" : : : "memory");
}

// A load of what is not needed again soon: it leaves the first-level cache to the rest.
template <int kTile>
TS_INLINE void tile_load_passing(const void* from, long long stride) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
}

// C (2 x 2 tiles in tmm0-3) += A B over `depth` steps of 16 words. A's two tiles are a_second bytes apart, B's 64 (one
// strip row holds both). Each multiplication waits for one load only.
TS_INLINE void tile_products(const char* a, long long a_second, long long a_step, const char* b, long long b_stride,
                             int depth) {
  for (int k = 0; k < depth; ++k) {
    tile_load<4>(a, kTileRow);
    tile_load<6>(b, b_stride);
    tile_dot<0, 4, 6>();
    tile_load<7>(b + kTileRow, b_stride);
    tile_dot<1, 4, 7>();
    tile_load<5>(a + a_second, kTileRow);
    tile_dot<2, 5, 6>();
    tile_dot<3, 5, 7>();
    a += a_step;
    b += 16 * b_stride;
  }
}

// The same with A's tiles next to each other, B from the first-level cache and A passing by: all four loads before the
// multiplications keep the unit busier than the order above. Meanwhile kFetched bytes a step of what `next` points to
// come into the second-level cache.
constexpr int kFetched = 256;  // 16 for each word
TS_INLINE void tile_products_fetching(const char* a, const char* b, long long b_stride, int depth, const char* next) {
  for (int k = 0; k < depth; ++k) {
    tile_load_passing<4>(a, kTileRow);
    tile_load_passing<5>(a + kTileBytes, kTileRow);
    tile_load<6>(b, b_stride);
    tile_load<7>(b + kTileRow, b_stride);
    tile_dot<0, 4, 6>();
    tile_dot<1, 4, 7>();
    asm volatile("prefetcht1 %0" : : "m"(next[0]));
    asm volatile("prefetcht1 %0" : : "m"(next[kFetched / 4]));
    tile_dot<2, 5, 6>();
    tile_dot<3, 5, 7>();
    asm volatile("prefetcht1 %0" : : "m"(next[kFetched / 2]));
    asm volatile("prefetcht1 %0" : : "m"(next[3 * kFetched / 4]));
    a += 2 * kTileBytes;
    b += 16 * b_stride;
    next += kFetched;
  }
}
