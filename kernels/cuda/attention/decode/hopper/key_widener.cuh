// The producer warpgroup where keys and values have 8 bits: two warps copy them as they are in memory, keys and values, into
// a ring, and two widen them from there to the products' type, in the columns that wgmma reads. What lies in the ring is
// copies under way; of what is widened there is one step, for products take the next only when its place is free anyway.
//
// Who widens does nothing else with memory: the fence that shows the tensor cores what threads have written waits for all
// that these threads have under way, copies and page numbers among it.
#pragma once

#include "key_layout.cuh"

#include "copier.cuh"
#include "lost_keys.cuh"

namespace ts {

struct KeyWidener : Copier<KeyWidener> {
  const TsCudaKeyMaps& maps;
  RingPlace<cfg::kStages> stage;  // of a warp that copies: to be filled; of one that widens: to be read
  KeyRing place;                  // of what is widened
  LostKeys lost_keys;             // kPaged

  TS_DEVICE KeyWidener(const TsCudaKeyMaps& of_keys, const TsCudaDecodeArgs& arguments, u32 memory)
      : Copier<KeyWidener>(arguments, memory), maps(of_keys) {}

  TS_DEVICE int first_key(int step) const { return (piece.first_tile + step) * kTileKeys; }
  TS_DEVICE static int warp() { return uniform(Producers::thread() / 32); }

  TS_DEVICE void prefetch() {
    if (args.map_rows == 0 || Producers::thread() != 0) return;
    prefetch_tensor_map(&maps.k);
    prefetch_tensor_map(&maps.v);
  }

  // The rows of a step as they are, by the copy engine where all are seen, else row by row.
  template <bool kKeys>
  TS_DEVICE void copy_step(const TsCudaTensorMap& from_map, const KeyRows& from, int step) const {
    constexpr int kColumns = kKeys ? kNarrowColumnsQk : kNarrowColumnsV;
    const u32 full = map().template narrow_full<kKeys>(stage.index), to = map().template narrow<kKeys>(stage.index);
    const int key = first_key(step);
    const bool by_engine = comes_by_engine(args, piece, key, cfg::kTileN);
    const Box box = by_engine ? box_of_lane(key) : Box{};
    mbarrier_wait(map().template narrow_empty<kKeys>(stage.index), stage.phase ^ 1);
    if (!by_engine) {
      copy_rows<kKeys>(to, from, key);
      return arrive_after_copies(full);
    }
    if (lane() == 0) {
      mbarrier_arrive(full, 31);
      mbarrier_expect(full, kColumns * kKeyColumnBytes);
    }
    __syncwarp();
#pragma unroll
    for (int column = 0; column < kColumns; ++column) copy_box(to + column * kKeyColumnBytes, from_map, full, column, box);
  }

  // Eight lanes have a row, and the warp four at once. Rows that no query sees become zeros.
  template <bool kKeys>
  TS_DEVICE void copy_rows(u32 to, const KeyRows& from, int first) const {
    constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kChunks = kColumnBytes / 16, kRows = 32 / kChunks;
    const int in_row = lane() % kChunks;
#pragma unroll
    for (int share = 0; share < Pages::kShare; ++share) {
      const int own = first + 32 * share + lane();
      const i64 offset = cfg::kPaged ? pages.offset(args, from, first, share) : own * from.row_bytes;
#pragma unroll 2
      for (int row = lane() / kChunks; row < 32; row += kRows) {
        const i64 at = __shfl_sync(0xffffffffu, offset, row);
        const int of_step = 32 * share + row, key = first + of_step;
        const bool seen = key >= piece.begin && key < piece.end;
#pragma unroll
        for (int column = 0; column < ceil_div(kDim, kColumnBytes); ++column) {
          const int byte = column * kColumnBytes + 16 * in_row;
          const bool valid = seen && (kDim % kColumnBytes == 0 || byte < kDim);
          copy_async(to + (column * cfg::kTileN + of_step) * kColumnBytes + (in_row ^ (of_step & 7)) * 16,
                     valid ? from.base + at + byte : static_cast<const char*>(args.k), valid);
        }
      }
    }
  }

  // A thread widens sixteen elements of a row at a time, which are two chunks of a column of twice the bytes. The second
  // halves of rows that are neighbours change places, for their columns share the banks. Several rows are loaded before the
  // first is widened, so that no load is waited for alone.
  template <bool kKeys>
  TS_DEVICE void widen_step() const {
    constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kWideColumns = ceil_div(kDim, kColumn);
    constexpr int kChunks = kColumnBytes / 16, kRowsTogether = 32 * kWideningWarps / kChunks, kTogether = 4;
    static_assert(kRowsTogether == 8 && cfg::kTileN % (kRowsTogether * kTogether) == 0, "rows have one swizzle");
    const u32 thread = Producers::thread() - 32 * kCopyingWarps, in_row = thread % kChunks;
    const u32 first = thread / kChunks ^ in_row / 4;  // which is its swizzle, too
    const u32 from = map().template narrow<kKeys>(stage.index) + first * kColumnBytes + (in_row ^ first) * 16;
    const u32 to = (kKeys ? map().keys(place.index) : map().values(place.index)) + first * kColumnBytes +
                   in_row / 4 * kKeyColumnBytes;
    const u32 low = to + ((in_row % 4 * 2) ^ first) * 16, high = low ^ 16;
    mbarrier_wait(map().template narrow_full<kKeys>(stage.index), stage.phase);
    mbarrier_wait(kKeys ? map().key_empty(place.index) : map().value_empty(place.index), place.phase ^ 1);
#pragma unroll
    for (int c = 0; c < ceil_div(kDim, kColumnBytes); ++c) {
      if (2 * c + static_cast<int>(in_row / 4) >= kWideColumns) continue;
#pragma unroll
      for (int row = 0; row < cfg::kTileN; row += kTogether * kRowsTogether) {
        u32 x[kTogether][4];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                       : "r"(from + (c * cfg::kTileN + row + i * kRowsTogether) * kColumnBytes)
                       : "memory");
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          u32 wide[4][2];
#pragma unroll
          for (int j = 0; j < 4; ++j) widen<kScoresBf16>(x[i][j], wide[j]);
          // A column of elements as they come is two of widened ones.
          const u32 of_row = (2 * c * cfg::kTileN + row + i * kRowsTogether) * kColumnBytes;
          store_chunk(low + of_row, {wide[0][0], wide[0][1], wide[1][0], wide[1][1]});
          store_chunk(high + of_row, {wide[2][0], wide[2][1], wide[3][0], wide[3][1]});
        }
      }
    }
    fence_proxy_async();
    __syncwarp();
    if (lane() == 0) {
      mbarrier_arrive(kKeys ? map().key_full(place.index) : map().value_full(place.index));
      mbarrier_arrive(map().template narrow_empty<kKeys>(stage.index));
    }
  }

  template <bool kKeys>
  TS_DEVICE void copy_steps(int steps) {
    const KeyRows rows(args, item, kKeys ? args.k : args.v, kKeys ? args.k_strides : args.v_strides);
    if constexpr (cfg::kPaged) pages.start(args, item, piece, first_key(0));
    wait_for_queries();
#pragma unroll 1
    for (int step = 0; step < steps; ++step, stage.advance()) {
      if constexpr (cfg::kPaged) {
        pages.advance(args);
        pages.look_up(args, item, piece, first_key(step + 1));
      }
      if (kKeys && !kUneven && step == imax(0, steps - args.end_tiles)) let_next_kernel_start();
      copy_step<kKeys>(kKeys ? maps.k : maps.v, rows, step);
    }
    if (cfg::kPaged && kKeys) lost_keys.tell(shared, pages.lost);
  }

  TS_DEVICE void widen_steps(int steps) {
    wait_for_queries();
#pragma unroll 1
    for (int step = 0; step < steps; ++step, stage.advance(), place.advance()) {
      widen_step<true>();
      widen_step<false>();
    }
  }

  TS_DEVICE void walk() {
    const int steps = piece.end_tile - piece.first_tile;
    if (warp() == 0)
      copy_steps<true>(steps);
    else if (warp() == 1)
      copy_steps<false>(steps);
    else
      widen_steps(steps);
  }
};

}  // namespace ts
