// Keys and values in pages, copied by warps of the producer's warpgroup of their own, which follow the thread that hands
// out tiles: the copy engine takes a box for each part of a page, or lanes copy row by row, so that pages may have any
// size. The tensor cores take rows that cp.async has copied as they take boxes, when the barrier of the copies says so, as in
// CUTLASS (sm90_mma_multistage_gmma_ss_warpspecialized.hpp, 4cd7fc68). A fence for rows alone in the consumers cost boxes
// 2 to 8 % (docs/log/2026-11-cuda-attention.md).
//
// Lanes look up the pages of the block after the one that is being copied, across the ends of tiles, too, so that no copy
// waits for the table. Neither entries of the table nor boxes are read that lie outside of what a sequence's queries see;
// of boxes that lie there in part the consumers clear the values' other rows (Consumer::clear_values).
#pragma once

#include "../mma_sm80/copy.cuh"
#include "scheduler.cuh"

namespace ts {

// A block of keys that is to be copied, and what a lane has looked up for it: the page of its box, or with kInRows those
// of every 32nd row.
template <bool kInRows>
struct PagedBlock {
  static constexpr int kNoBox = -1;  // in place of a row: the lane has no box to copy
  static constexpr int kPages = kInRows ? ceil_div(cfg::kTileN, 32) : 1;

  const int* numbers;  // of the sequence's pages
  int batch, head;
  int begin, end;     // the keys that the sequence's queries see
  int first;          // key of the block
  int pages[kPages];  // numbers
  int row;            // of the lane's box in its page

  TS_DEVICE static int lane() { return threadIdx.x & 31; }
  TS_DEVICE bool is_seen(int key) const { return key >= begin && key < end; }

  TS_DEVICE void look(const TsCudaAttentionArgs& args) {
    if constexpr (kInRows) {
#pragma unroll
      for (int i = 0; i < kPages; ++i) {
        const int key = first + 32 * i + lane();
        pages[i] = is_seen(key) ? page_number(numbers, batch, page_of(args, key)) : 0;
      }
    } else {
      // A box lies in one page, also where it begins before the keys that are seen.
      const int of_block = lane() * args.map_rows, key = first + of_block, page = page_of(args, key);
      const bool has_box = of_block < cfg::kTileN && key < end && key + args.map_rows > begin;
      row = has_box ? key - page * static_cast<int>(args.paged.page_size) : kNoBox;
      pages[0] = has_box ? page_number(numbers, batch, page) : 0;
    }
  }

  // A tile's last block.
  TS_DEVICE void enter(const TsCudaAttentionArgs& args, const Tile& t) {
    numbers = numbers_of_pages(args, t.batch);
    batch = t.batch;
    head = cfg::kPackGqa > 1 ? t.head : t.head / static_cast<int>(args.heads_q / args.heads_kv);
    begin = key_begin(args, t.length, 0);
    end = key_end(args, t.length, t.length.q - 1);
    first = (t.n_end - 1) * cfg::kTileN;
  }
};

// The ring of the keys, or of the values, as the warp that fills it sees it.
template <bool kKeys>
struct PageCopier {
  static constexpr int kBytes = kWidens ? 1 : 2, kColumn = kColumnBytes / kBytes;  // of elements as they come
  static constexpr int kDim = kKeys ? cfg::kHeadDimQk : cfg::kHeadDimV, kColumns = ceil_div(kDim, kColumn);
  static constexpr int kChunks = kColumnBytes / 16, kRowsAtOnce = 32 / kChunks;
  static constexpr int kRows = cfg::kTileN;

  const Shared& shared;
  const TsCudaTensorMap& map;
  const TsCudaAttentionArgs& args;
  RingPlace<kWidens ? kRawStages : cfg::kStages> place;

  TS_DEVICE static int lane() { return threadIdx.x & 31; }
  TS_DEVICE u32 destination(u32 stage) const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys(stage) : shared.raw(stage);
    return kKeys ? shared.key(stage) : shared.value(stage);
  }
  TS_DEVICE u32 full(u32 stage) const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys_full(stage) : shared.raw_full(stage);
    return kKeys ? shared.key_full(stage) : shared.value_full(stage);
  }
  TS_DEVICE u32 empty(u32 stage) const {
    if constexpr (kWidens) return kKeys ? shared.raw_keys_empty(stage) : shared.raw_empty(stage);
    return kKeys ? shared.key_empty(stage) : shared.value_empty(stage);
  }

  TS_DEVICE bool has_place() const {
    return __all_sync(0xffffffffu, mbarrier_test(empty(place.index), place.phase ^ 1));
  }
  TS_DEVICE void wait() const { mbarrier_wait(empty(place.index), place.phase ^ 1); }
  template <bool kInRows>
  TS_DEVICE void copy(const PagedBlock<kInRows>& block) {
    wait();
    fill(block);
  }
  // Asks for a block whose place is free.
  TS_DEVICE void fill(const PagedBlock<false>& block) {
    copy_boxes(block, place.index);
    place.advance();
  }
  // Rows tell of themselves when they have come, so that the warp need not wait for them.
  TS_DEVICE void fill(const PagedBlock<true>& block) {
    const u32 stage = place.index;
    const bool lost = copy_rows(block, stage);
    if (kKeys && lost) {
      fill_lost(block, stage);
      fence_proxy_async();  // for the tensor cores
      mbarrier_arrive(full(stage));
    } else {
      arrive_after_copies(full(stage));
    }
    place.advance();
  }

  // Keys that lie in no page become NaN, so that whatever sees them does, too; of values the first page's are read.
  TS_DEVICE void copy_boxes(const PagedBlock<false>& block, u32 stage) const {
    const int number = block.pages[0];
    const bool has_box = block.row != PagedBlock<false>::kNoBox, lost = has_box && !is_page(args, number);
    if (kKeys && __any_sync(0xffffffffu, lost)) {
      copy_around_lost(block, stage, has_box, lost);
      return;
    }
    const int boxes = __popc(__ballot_sync(0xffffffffu, has_box));
    const u32 bytes = args.map_rows * kColumnBytes;  // of a column of a box
    const u32 to = destination(stage) + lane() * bytes;
    if (lane() == 0) mbarrier_expect(full(stage), boxes * bytes * kColumns);
    __syncwarp();
    if (has_box) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        tma_load_4d(to + c * kRows * kColumnBytes, &map, full(stage), c * kColumn, block.row, block.head,
                    lost ? 0 : number);
    }
  }

  // The same where a number is no page, lane by lane.
  TS_DEVICE void copy_around_lost(const PagedBlock<false>& block, u32 stage, bool has_box, bool lost) const {
    const u32 to = destination(stage) + lane() * args.map_rows * kColumnBytes;
    if (lost) {
#pragma unroll 1
      for (int c = 0; c < kColumns; ++c)
#pragma unroll 1
        for (int i = 0; i < args.map_rows * kChunks; ++i)
          asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to + c * kRows * kColumnBytes + 16 * i),
                       "r"(~0u)
                       : "memory");
    }
    fence_proxy_async();
    __syncwarp();
    const bool copied = has_box && !lost;
    const int boxes = __popc(__ballot_sync(0xffffffffu, copied));
    if (lane() == 0) mbarrier_expect(full(stage), boxes * args.map_rows * kColumns * kColumnBytes);
    __syncwarp();
    if (copied) {
#pragma unroll 1
      for (int c = 0; c < kColumns; ++c)
        tma_load_4d(to + c * kRows * kColumnBytes, &map, full(stage), c * kColumn, block.row, block.head,
                    block.pages[0]);
    }
    __syncwarp();
  }

  // A lane copies 16 bytes of every fourth row, of each column. Where rows lie the lanes work out first, each for every
  // 32nd row, in units that both strides are multiples of. Whether a row lies in no page.
  TS_DEVICE bool copy_rows(const PagedBlock<true>& block, u32 stage) const {
    constexpr u32 kNone = ~0u;
    const TsStrides& strides = kKeys ? args.k_strides : args.v_strides;
    const i64 both = (strides.batch | strides.row) * kBytes;
    const int shift = __ffs(static_cast<int>(both) | 1 << 30) - 1;
    const u32 of_page = static_cast<u32>(strides.batch * kBytes >> shift);
    const u32 of_row = static_cast<u32>(strides.row * kBytes >> shift);
    const u32 unit = 1u << shift;
    u32 places[PagedBlock<true>::kPages];
    bool lost = false;
#pragma unroll
    for (int i = 0; i < PagedBlock<true>::kPages; ++i) {
      const int key = block.first + 32 * i + lane();
      const bool seen = block.is_seen(key), in_page = is_page(args, block.pages[i]);
      places[i] = seen && in_page ? block.pages[i] * of_page + row_in_page(args, key) * of_row : kNone;
      lost = lost || (seen && !in_page);
    }
    const u32 chunk = lane() % kChunks, share = lane() / kChunks;
    const char* of_head =
        static_cast<const char*>(kKeys ? args.k : args.v) + kBytes * (block.head * strides.head) + 16 * chunk;
    asm volatile("" : "+l"(of_head));  // one sum, not one for each row
    const u32 to = destination(stage) + share * kColumnBytes;
    const u32 even = to + ((chunk ^ share) * 16), odd = to + kRowsAtOnce * kColumnBytes + ((chunk ^ (share + 4)) * 16);
    // Several rows' places are passed on at a time, and kept: a register would not be free for the next one before its copy
    // has been issued.
    constexpr int kTogether = kRows % (4 * kRowsAtOnce) == 0 ? 4 : 2;
#pragma unroll
    for (int first = 0; first < kRows; first += kTogether * kRowsAtOnce) {
      u32 at[kTogether];
      const char* from[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int row = first + i * kRowsAtOnce;
        at[i] = __shfl_sync(0xffffffffu, places[row / 32], row % 32 + share);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        from[i] = of_head + static_cast<u64>(at[i]) * unit;
        asm volatile("" : "+l"(from[i]));
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int row = first + i * kRowsAtOnce;
        const u32 target = (row % 8 == 0 ? even : odd) + row / 8 * 8 * kColumnBytes;
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          copy_async(target + c * kRows * kColumnBytes, from[i] + c * kColumnBytes,
                     at[i] != kNone && (kDim % kColumn == 0 || c * kColumn + chunk * (16 / kBytes) < kDim));
      }
    }
    return kKeys && __any_sync(0xffffffffu, lost);
  }
  // Rows of keys that lie in no page become NaN.
  TS_DEVICE void fill_lost(const PagedBlock<true>& block, u32 stage) const {
    copy_commit();
    copy_wait();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PagedBlock<true>::kPages; ++i) {
      const int row = 32 * i + lane();
      if (row >= kRows || !block.is_seen(block.first + row) || is_page(args, block.pages[i])) continue;
#pragma unroll 1
      for (int j = 0; j < kColumns * kChunks; ++j)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(destination(stage) + row * kColumnBytes +
                                                                      j / kChunks * kRows * kColumnBytes + j % kChunks * 16),
                     "r"(~0u)
                     : "memory");
    }
    __syncwarp();
  }
};

// A warp that copies keys and values of one tile after another; values follow one block behind keys, as in Producer.
template <bool kInRows>
TS_DEVICE void copy_pages(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps) {
  using Block = PagedBlock<kInRows>;
  PageCopier<true> keys{shared, maps.k, args};
  PageCopier<false> values{shared, maps.v, args};
  TileRing ring;
  Block last, late;  // what is not copied yet of the tile before: its last block, and the values of a block before it
  bool has_last = false, has_late = false;
  const auto copy = [&](const Block& block) {
    keys.copy(block);
    if (has_late) values.copy(late);
    late = block;
    has_late = true;
  };
  while (true) {
    // A tile that comes before the last block has a place has its pages looked up first.
    bool comes = true;
    while (has_last) {
      comes = __all_sync(0xffffffffu, ring.has_come(shared));
      if (comes || keys.has_place()) break;
      __nanosleep(40);
    }
    if (!comes) {
      copy(last);
      has_last = false;
    }
    Tile t;
    const u32 slot = ring.pop(shared, t);
    TileRing::release(shared, slot);
    Block next;
    if (t.n_end > 0) {
      next.enter(args, t);
      next.look(args);
    }
    if (has_last) copy(last);
    has_last = t.n_end > 0;
    if (!has_last) {
      if (has_late) values.copy(late);
      has_late = false;
      if (t.is_pause()) continue;
      return;
    }
#pragma unroll 1
    for (int n = t.n_end - 1; n > t.n_begin; --n) {
      const Block block = next;
      next.first -= cfg::kTileN;
      next.look(args);
      copy(block);
    }
    last = next;
  }
}

// The order in which warps that take turns at blocks learn that places are free. Out of order a warp could take a place that
// was free two rounds before for one that is free now, as their parities are the same.
struct PageTurns {
  static constexpr int kWarps = 3, kFirst = 4, kFirstOfValues = 11;  // named barriers of theirs
  static constexpr bool kNeeded = cfg::kStages != kWarps;            // else each warp has a stage of its own

  int own;
  TS_DEVICE void start() const {
    if (own == kWarps - 1) {
      end<true>();
      end<false>();
    }
  }
  template <bool kKeys>
  TS_DEVICE void begin() const {
    if constexpr (kNeeded) named_barrier_sync((kKeys ? kFirst : kFirstOfValues) + own, 64);
  }
  template <bool kKeys>
  TS_DEVICE void end() const {
    if constexpr (kNeeded)
      named_barrier_arrive((kKeys ? kFirst : kFirstOfValues) + (own == kWarps - 1 ? 0 : own + 1), 64);
  }
};

// One of the warps that copy blocks in turn, keys and values.
template <bool kInRows>
TS_DEVICE void copy_pages_in_turn(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps,
                                  int own) {
  const PageTurns turns{own};
  PageCopier<true> keys{shared, maps.k, args};
  PageCopier<false> values{shared, maps.v, args};
  TileRing ring;
  int before = own;  // blocks until the warp's own
  turns.start();
  while (true) {
    Tile t;
    const u32 slot = ring.pop(shared, t);
    TileRing::release(shared, slot);
    if (t.is_pause()) continue;
    if (t.n_end == 0) return;
    PagedBlock<kInRows> next;
    next.enter(args, t);
    next.first -= before * cfg::kTileN;
    next.look(args);
#pragma unroll 1
    for (int n = t.n_end - 1; n >= t.n_begin; --n) {
      if (before > 0) {
        keys.place.advance();
        values.place.advance();
        --before;
        continue;
      }
      const PagedBlock<kInRows> block = next;
      next.first -= PageTurns::kWarps * cfg::kTileN;
      next.look(args);
      turns.begin<true>();
      keys.wait();
      turns.end<true>();
      keys.fill(block);
      turns.begin<false>();
      values.wait();
      turns.end<false>();
      values.fill(block);
      before = PageTurns::kWarps - 1;
    }
  }
}

// The last warps of the producer's warpgroup. A box costs its warp some 80 cycles, so that of few boxes one copies all, and
// of many and of rows three take turns.
TS_DEVICE int page_warps(const TsCudaAttentionArgs& args) {
  return kMostPageWarps > 1 && 2 * args.map_rows >= cfg::kTileN ? 1 : kMostPageWarps;
}
template <bool kInRows>
TS_DEVICE void copy_as_follower(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps,
                                int warp) {
  if (kMostPageWarps > 1 && (kInRows || page_warps(args) > 1))
    copy_pages_in_turn<kInRows>(args, shared, maps, 3 - warp);
  else
    copy_pages<kInRows>(args, shared, maps);
}
TS_DEVICE void follow_tiles(const TsCudaAttentionArgs& args, const Shared& shared, const TsCudaTensorMaps& maps,
                            int warp) {
  if (comes_in_boxes(args))
    copy_as_follower<false>(args, shared, maps, warp);
  else
    copy_as_follower<true>(args, shared, maps, warp);
}

}  // namespace ts
