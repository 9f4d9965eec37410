// Keys and values in pages, copied by the warps of the producer's warpgroup: the copy engine takes a box for each part of a
// page, or lanes copy row by row, so that pages may have any size. Keys and values have warps of their own, which take turns
// at blocks: a warp asks for one box after another, and what it computes takes the consumers' turns at issuing.
//
// Lanes look up pages of the warp's next block while it copies one, so that no copy waits for the table. Neither entries of the table nor
// boxes are read that lie outside of what a sequence's queries see; of boxes that lie there in part the consumers clear the
// values' other rows (Consumer::clear_values).
#pragma once

#include "../mma_sm80/copy.cuh"
#include "scheduler.cuh"

namespace ts {

// What stands for a row that lies in no page.
__device__ const u32 kLostChunk[4] = {~0u, ~0u, ~0u, ~0u};

// One of the kCopyWarps that copy the keys, or the values.
template <bool kKeys>
struct PageCopier {
  // In place of the page of a lane's box: the lane has none to copy, or its number is no page.
  static constexpr int kNoBox = -1, kLostBox = -2;
  static constexpr int kBytes = kWidens ? 1 : 2, kColumn = kColumnBytes / kBytes;  // of elements as they come
  static constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kColumns = ceil_div(kDim, kColumn);
  static constexpr int kChunks = kColumnBytes / 16, kRowsAtOnce = 32 / kChunks, kShares = ceil_div(cfg::kTileN, 32);

  const Shared& shared;
  const TsCudaTensorMap& map;
  const TsCudaAttentionArgs& args;
  const int warp;
  int turn;  // of the warp whose block comes next
  RingPlace<kWidens ? kRawStages : cfg::kStages> place;

  const int* numbers;  // of the sequence's pages
  int batch, head;
  int begin, end;      // the keys that its queries see
  int ahead[kShares];  // of the warp's next block: the number of the page of the lane's box, or those of every 32nd row

  TS_DEVICE static int lane() { return threadIdx.x & 31; }
  TS_DEVICE u32 destination() const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys(place.index) : shared.raw(place.index);
    return kKeys ? shared.key(place.index) : shared.value(place.index);
  }
  TS_DEVICE u32 full() const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys_full(place.index) : shared.raw_full(place.index);
    return kKeys ? shared.key_full(place.index) : shared.value_full(place.index);
  }
  TS_DEVICE u32 empty() const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys_empty(place.index) : shared.raw_empty(place.index);
    return kKeys ? shared.key_empty(place.index) : shared.value_empty(place.index);
  }

  TS_DEVICE int box_row() const { return lane() * args.map_rows; }  // of the lane's box within a block
  TS_DEVICE bool has_box(int first) const {
    const int key = first + box_row();
    return box_row() < cfg::kTileN && key < end && key + args.map_rows > begin;
  }
  TS_DEVICE bool is_seen(int key) const { return key >= begin && key < end; }
  TS_DEVICE int look_up(int key) const { return page_number(numbers, batch, page_of(args, key)); }
  TS_DEVICE void look_ahead(int first) {
    if (comes_in_boxes(args)) {
      ahead[0] = has_box(first) ? look_up(imax(begin, first + box_row())) : 0;
    } else {
#pragma unroll
      for (int i = 0; i < kShares; ++i) {
        const int key = first + 32 * i + lane();
        ahead[i] = is_seen(key) ? look_up(key) : 0;
      }
    }
  }

  TS_DEVICE void start(const Tile& t) {
    numbers = numbers_of_pages(args, t.batch);
    batch = t.batch;
    head = cfg::kPackGqa > 1 ? t.head : t.head / static_cast<int>(args.heads_q / args.heads_kv);
    begin = key_begin(args, t.length, 0);
    end = key_end(args, t.length, t.length.q - 1);
    look_ahead((t.n_end - 1 - (turn == warp ? 0 : 1)) * cfg::kTileN);
  }

  // Copies block n if it is the warp's.
  TS_DEVICE void pass(int n) {
    if (turn == warp) copy(n * cfg::kTileN);
    if constexpr (kCopyWarps > 1) turn ^= 1;
    place.advance();
  }
  TS_DEVICE void copy(int first) {
    const int next = first - kCopyWarps * cfg::kTileN;
    if (comes_in_boxes(args)) {
      const int page = !has_box(first) ? kNoBox : is_page(args, ahead[0]) ? ahead[0] : kLostBox;
      look_ahead(next);
      mbarrier_wait(empty(), place.phase ^ 1);
      copy_boxes(first, page);
    } else {
      mbarrier_wait(empty(), place.phase ^ 1);
      copy_rows(first);
      look_ahead(next);
      copy_commit();
      copy_wait();
      fence_proxy_async();  // for the tensor cores
      mbarrier_arrive(full());
    }
  }

  // Keys that lie in no page become NaN, so that whatever sees them does, too; of values the first page's are read.
  TS_DEVICE void copy_boxes(int first, int page) const {
    const u32 to = destination() + box_row() * kColumnBytes;
    if (kKeys && page == kLostBox) {
#pragma unroll 1
      for (int c = 0; c < kColumns; ++c)
#pragma unroll 1
        for (int i = 0; i < args.map_rows * kChunks; ++i)
          asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to + c * cfg::kTileN * kColumnBytes + 16 * i),
                       "r"(~0u)
                       : "memory");
      fence_proxy_async();
    }
    const bool copied = kKeys ? page >= 0 : page != kNoBox;
    const int boxes = __popc(__ballot_sync(0xffffffffu, copied));
    if constexpr (kKeys) __syncwarp();
    if (lane() == 0) mbarrier_expect(full(), boxes * args.map_rows * kColumns * kColumnBytes);
    __syncwarp();
    if (!copied) return;
    const int row = row_in_page(args, first + box_row());
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      tma_load_4d(to + c * cfg::kTileN * kColumnBytes, &map, full(), c * kColumn, row, head, imax(page, 0));
  }

  // A lane copies 16 bytes of every fourth row, of each column.
  TS_DEVICE void copy_rows(int first) const {
    const TsStrides& strides = kKeys ? args.k_strides : args.v_strides;
    const int chunk = lane() % kChunks;
    const char* const of_head =
        static_cast<const char*>(kKeys ? args.k : args.v) + kBytes * (head * strides.head) + 16 * chunk;
#pragma unroll
    for (int i = 0; i < kShares; ++i) {
#pragma unroll 2
      for (int of_share = lane() / kChunks; of_share < imin(32, cfg::kTileN - 32 * i); of_share += kRowsAtOnce) {
        const int row = 32 * i + of_share, key = first + row, number = __shfl_sync(0xffffffffu, ahead[i], of_share);
        const bool seen = is_seen(key), lost = kKeys && !is_page(args, number);
        const char* const from =
            of_head + kBytes * (page_to_read(args, number) * strides.batch + row_in_page(args, key) * strides.row);
        const u32 to = destination() + row * kColumnBytes + ((chunk ^ (row & 7)) * 16);
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          copy_async(to + c * cfg::kTileN * kColumnBytes,
                     lost ? reinterpret_cast<const char*>(kLostChunk) : from + c * kColumnBytes,
                     seen && (kDim % kColumn == 0 || c * kColumn + chunk * (16 / kBytes) < kDim));
      }
    }
  }

  // A warp beside the one that hands out tiles: copies what they see.
  TS_DEVICE void follow() {
    TileRing ring;
    Tile t;
    while (true) {
      const u32 slot = ring.pop(shared, t);
      TileRing::release(shared, slot);
      if (t.is_pause()) continue;
      if (t.n_end == 0) return;
      start(t);
#pragma unroll 1
      for (int n = t.n_end - 1; n >= t.n_begin; --n) pass(n);
    }
  }
};

// The last warps of the producer's warpgroup, of which every second copies keys.
TS_DEVICE void follow_tiles(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  const int follower = static_cast<int>(uniform(threadIdx.x / 32)) - (4 - kFollowers);
  if (kCopyWarps > 1 && follower == 1) {
    PageCopier<true> keys{shared, maps.k, args, 1};
    keys.follow();
  } else {
    PageCopier<false> values{shared, maps.v, args, follower / 2};
    values.follow();
  }
}

}  // namespace ts
