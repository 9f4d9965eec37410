// Which tile a block works on next. The producer thread alone decides, works out the tile's rows, sequence and range of
// key blocks, and hands it to the consumers through a small ring in shared memory.
//
// Work items are numbered section by section. A section is as many heads as the host wants to share the L2 cache
// (section_heads); inside it the longest row tiles of all its heads come first. Item 0.. go to the blocks in order;
// after that either by a fixed stride or, when kDynamicScheduler, by an atomic counter, which evens out the triangle of
// a causal mask. The last block to finish zeroes the counters.
#pragma once

#include "layout.cuh"

#include "../../common/launch.cuh"
#include "../pages.cuh"

#include "../../../gpu/attention/visible.h"

namespace ts {

// Tiles whose blocks beyond the first two are taken without maxima (trust_base). One that turns out to have a row that
// needs them goes through the ring again, as a careful one, and so do all tiles of its block of threads after it: a
// careful tile gives a trusting one's bits where that is right, and takes longer. A warpgroup whose first two blocks are
// steep (is_steep) is careful from then on. Blocks are walked backwards, so with
// ALiBi and without a right bound the logits of a sequence's first rows would rise from block to block.
constexpr bool kTrusting = cfg::kBf16 && !cfg::kFp8 && !kWidens && !cfg::kSoftCap && !cfg::kBias && !cfg::kDropout &&
                           !(cfg::kAlibi && !cfg::kMaskRight) && cfg::kWarpgroups > 1;

struct Tile {
  int row;   // first row; rows are (query, packed head) with the head running fastest
  int head;  // query head, or key/value head when heads are packed
  int batch;
  int n_begin;  // key blocks n_begin .. n_end - 1, at least one; n_end == 0 ends the work, or (is_pause) says that what
                // comes next is known when the tiles before are done
  int n_end;
  Lengths length;
  int offset_q;  // first row of the sequence in a packed tensor (group mode), else 0
  int offset_k;

  TS_DEVICE bool is_pause() const { return n_end == 0 && row != 0; }
  TS_DEVICE int rows() const { return length.q * cfg::kPackGqa; }
};

// Fills in work item `index`; false when the item is a tile beyond its sequence's end.
TS_DEVICE bool find_tile(const TsCudaAttentionArgs& args, int index, Tile& t) {
  const int heads = static_cast<int>(cfg::kPackGqa > 1 ? args.heads_kv : args.heads_q);
  const int all_heads = heads * static_cast<int>(args.batch);
  const int section_items = args.section_heads * args.row_tiles;
  const int section = imin(index / section_items, args.sections);
  const int first_head = section * args.section_heads;
  const int width = section < args.sections ? args.section_heads : all_heads - first_head;
  const int rest = index - section * section_items;
  const int row_tile = args.first_tile + args.row_tiles - 1 - rest / width;
  const int batch_head = first_head + rest % width;
  t.batch = batch_head / heads;
  t.head = batch_head - t.batch * heads;
  t.row = row_tile * kTileM;
  t.length.q = static_cast<int>(args.seqlen_q);
  t.length.k = static_cast<int>(args.seqlen_k);
  t.offset_q = 0;
  t.offset_k = 0;
  if constexpr (cfg::kGroupMode) {
    t.offset_q = args.cu_seqlens_q[t.batch];
    t.length.q = args.cu_seqlens_q[t.batch + 1] - t.offset_q;
    if constexpr (!cfg::kPaged) {
      t.offset_k = args.cu_seqlens_k[t.batch];
      t.length.k = args.cu_seqlens_k[t.batch + 1] - t.offset_k;
    }
  }
  if constexpr (cfg::kPaged) t.length.k = length_in_pages(args, t.batch);
  if (t.row >= t.rows()) return false;
  const int last_row = imin(t.row + kTileM, t.rows()) - 1;
  const BlockRange blocks = visible_blocks(args, t.length, t.row / cfg::kPackGqa, last_row / cfg::kPackGqa);
  t.n_begin = blocks.begin;
  t.n_end = blocks.end;
  return true;
}

// A tile at a sequence's end may have no rows for a warpgroup.
TS_DEVICE bool has_rows(const Tile& t, int warpgroup) {
  return cfg::kWarpgroups == 1 || t.row + warpgroup * kWarpgroupRows < t.rows();
}

// The tile's key blocks that a warpgroup's rows see: at least one.
TS_DEVICE BlockRange own_blocks(const TsCudaAttentionArgs& args, const Tile& t, int warpgroup) {
  BlockRange r = {t.n_begin, t.n_end};
  if constexpr (kPassBlocks) {
    const int first_row = t.row + warpgroup * kWarpgroupRows;
    const int first_query = first_row / cfg::kPackGqa;
    const int last_query = (first_row + kWarpgroupRows - 1) / cfg::kPackGqa;
    r.end = imax(r.begin + 1, imin(r.end, ceil_div(key_end(args, t.length, last_query), cfg::kTileN)));
    r.begin = imax(r.begin, imin(r.end - 1, key_begin(args, t.length, first_query) / cfg::kTileN));
  }
  return r;
}

// The producer's walk over the work items. A block draws its next item shortly before it needs it: one that drew when its
// current tile began would hold an item that another block, done sooner, could start now, and long tiles would no longer
// come first.
struct Walk {
  int index;  // after draw: less gridDim.x, with kDynamicScheduler when the answer is there

  TS_DEVICE void start() { index = blockIdx.x; }
  // The tile of the current item, or of the first one after it that is a tile; false when there are no more.
  TS_DEVICE bool take(const TsCudaAttentionArgs& args, Tile& t) {
    for (; index < args.work_items; advance(args)) {
      if (find_tile(args, index, t)) return true;
      draw(args);
    }
    return false;
  }
  // Where to draw: the answer arrives while the tile's last blocks are loaded.
  static TS_DEVICE bool is_due(const Tile& t, int n) { return n == imin(t.n_begin + 1, t.n_end - 1); }
  // Asks for the item after the current one; once for each item.
  TS_DEVICE void draw(const TsCudaAttentionArgs& args) {
    if constexpr (cfg::kDynamicScheduler) {
      // The compiler waits for atomicAdd's result at once where it takes the thread for one of several.
      asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(index) : "l"(args.tile_counters) : "memory");
    }
  }
  // The current item's loads are under way. Behind the last ones the next launch may start, and waits until this one ends.
  TS_DEVICE void advance(const TsCudaAttentionArgs& args) {
    index += gridDim.x;
    if (index >= args.work_items) let_next_kernel_start();
  }
  TS_DEVICE void finish(const TsCudaAttentionArgs& args) {
    if constexpr (cfg::kDynamicScheduler) {
      if (atomicAdd(args.tile_counters + 1, 1u) == gridDim.x - 1) {
        args.tile_counters[0] = 0;
        args.tile_counters[1] = 0;
      }
    }
  }
};

// The ring of tiles in shared memory.
struct TileRing {
  RingPlace<kTileSlots> place;

  // `item` is the tile's work item, with kTrusting.
  TS_DEVICE void push(const Shared& shared, const Tile& t, int item = 0) {
    mbarrier_wait(shared.tile_empty(place.index), place.phase ^ 1);
    const u32 address = shared.tile(place.index);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(t.row), "r"(t.head), "r"(t.batch),
                 "r"(t.n_begin)
                 : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address + 16), "r"(t.n_end), "r"(t.length.q),
                 "r"(t.length.k), "r"(t.offset_q)
                 : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address + 32), "r"(t.offset_k),
                 "r"(kTrusting ? load_word(shared.careful()) : 0), "r"(0), "r"(kTrusting ? item : 0)
                 : "memory");
    mbarrier_arrive(shared.tile_full(place.index));
    place.advance();
  }

  TS_DEVICE bool has_come(const Shared& shared) const {
    return mbarrier_test(shared.tile_full(place.index), place.phase);
  }
  // The slot of the next tile, and the tile. The slot stays the consumer's until it is released, so that what a tile is
  // need no registers while its blocks are walked.
  TS_DEVICE u32 pop(const Shared& shared, Tile& t) {
    mbarrier_wait(shared.tile_full(place.index), place.phase);
    const u32 slot = place.index;
    t = read(shared, slot);
    place.advance();
    return slot;
  }
  static TS_DEVICE Tile read(const Shared& shared, u32 slot) {
    Tile t;
    const u32 address = shared.tile(slot);
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.row), "=r"(t.head), "=r"(t.batch), "=r"(t.n_begin)
                 : "r"(address)
                 : "memory");
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t.n_end), "=r"(t.length.q), "=r"(t.length.k), "=r"(t.offset_q)
                 : "r"(address + 16)
                 : "memory");
    t.offset_k = load_word(address + 32);
    return t;
  }
  // Whether a warpgroup takes maxima in every block of the tile in a slot that it has not released yet, with kTrusting. Each
  // has a byte of its own, which all its warps must find the same.
  static TS_DEVICE bool is_careful(const Shared& shared, u32 slot, int warpgroup) {
    return load_byte(shared.tile_careful(slot, warpgroup)) != 0;
  }
  static TS_DEVICE void be_careful(const Shared& shared, u32 slot, int warpgroup) {
    store_byte(shared.tile_careful(slot, warpgroup), 1);
  }
  // A consumer that has not released the slot yet asks for its tile once more, unless it was a careful one.
  static TS_DEVICE void ask_again(const Shared& shared, u32 slot, int warpgroup) {
    if (!is_careful(shared, slot, warpgroup)) store_word(shared.tile_again(slot), 1);
  }
  // All tiles that the producer pushes from now on are careful ones, for all warpgroups.
  static TS_DEVICE void be_careful(const Shared& shared) { store_word(shared.careful(), 0x010101); }
  // The producer's: waits for the slot `ahead` places after the one that it pushes to next; the item of the slot's last
  // tile if that is asked for again, else -1.
  TS_DEVICE int asked_again(const Shared& shared, u32 ahead) const {
    const u32 slot = (place.index + ahead) % kTileSlots;
    mbarrier_wait(shared.tile_empty(slot), place.phase ^ (place.index + ahead < kTileSlots ? 1 : 0));
    int again, item;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(again), "=r"(item) : "r"(shared.tile_again(slot)) : "memory");
    return again != 0 ? item : -1;
  }
  static TS_DEVICE void release(const Shared& shared, u32 slot) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.tile_empty(slot));
  }
};

}  // namespace ts
