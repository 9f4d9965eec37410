// The work items: blocks of 128 keys of a head of keys and values. The producer draws them and hands their numbers to
// the consumers through a ring in shared memory; each side works out the rest for itself.
//
// Where heads of keys have too few blocks to fill the chip, the walk of a block is shared out: an item has a part of the group's
// heads (head_parts) and of their tiles (tile_parts). Each part counts as a head of keys of its own; its sums of dk and dv are
// partial (key_parts) and added up in the order of the parts by the kernel that converts dq.
//
// Items are numbered section by section; a section is as many heads as the host wants to run side by side
// (section_heads). With a bounded window a section's blocks go key by key over its heads: those that the most queries
// see come first. Without one a head's blocks follow one another and share its queries.
//
// Ordered additions (kDeterministic): blocks of a head add to a tile of dq in the order of their items, so each waits for
// items that were drawn before its own. Blocks go key by key over the section's heads, masked or not: when the next block
// of a head is drawn, the one before is tiles ahead.
//
// Ordered blocks, and those of long or grouped heads in tiles of 64 behind a causal mask, walk their tiles from the last, which
// every block sees, to the first: blocks that begin together are at the same tile, however many they see, and L2 holds it for
// all of them. A tile of grouped heads is that of every head of the group before the next tile comes, for the same reason.
// Blocks of short heads begin at their first tiles, where they do not add to the same one.
// Later items of grouped heads begin at their first tiles, too: one that sees a tile less begins about a tile later, so they
// meet the others there. Ordered ones take turns at that, round by round: those that began at their first tiles end at the
// last together, where the next ones begin.
#pragma once

#include "../window.cuh"
#include "layout.cuh"

namespace ts {

// Whether a tile is walked for every head of the group before the next tile comes. The gradient of slopes is summed head by
// head; and where warpgroups take turns, finding the next step between two turns costs more than L2 gives back.
constexpr bool kWalksHeads = !cfg::kDalibi && (cfg::kDeterministic || kTileM == 64);

// Heads of a group that are walked together.
TS_DEVICE int heads_at_once(int group) {
  return kWalksHeads ? group : 1;
}
constexpr int kShortHead = 2048;  // queries

// A tile of one of the heads that are walked together.
struct Step {
  int tile, head;

  TS_DEVICE void advance(int heads, int direction) {
    if (++head < heads) return;
    head = 0;
    tile += direction;
  }
};

struct Item {
  int key;   // first key
  int head;  // of keys and values, or a part of its group
  int part;  // of the tiles
  int batch;
  Sequence sequence;
  Window window;
  Range tiles;    // of queries; may be empty
  int round;      // how many items each block has walked before, about

  // How many blocks add to a tile of dq before this one.
  TS_DEVICE unsigned turn(int tile) const {
    return static_cast<unsigned>(key / kKeys - window.key_tiles<kKeys>(tile * kTileM, kTileM).begin);
  }
  TS_DEVICE int tile_count() const { return imax(0, tiles.end - tiles.begin); }
  // From a tile to the next where so many heads are walked together.
  TS_DEVICE int direction(int heads) const {
    bool backwards = cfg::kDeterministic;
    if (cfg::kMaskRight && kWalksHeads) {
      if (heads > 1)
        backwards = cfg::kDeterministic ? round % 2 == 0 : round == 0;
      else
        backwards = backwards || sequence.length_q > kShortHead;
    }
    return backwards ? -1 : 1;
  }
  TS_DEVICE Step first_step(int heads) const { return {direction(heads) > 0 ? tiles.begin : tiles.end - 1, 0}; }

  // False when the block lies beyond its sequence's end.
  TS_DEVICE bool find(const TsCudaAttentionBackwardArgs& args, int index) {
    const int heads = static_cast<int>(args.heads_kv) * args.head_parts * args.tile_parts;
    const int all_heads = heads * static_cast<int>(args.batch);
    const int section_items = args.section_heads * args.row_tiles;
    const int section = index / section_items;
    const int first_head = section * args.section_heads;
    const int width = imin(args.section_heads, all_heads - first_head);
    const int rest = index - section * section_items;
    const bool by_block = cfg::kMaskRight || cfg::kMaskLeft || cfg::kDeterministic;
    const int block = by_block ? rest / width : rest % args.row_tiles;
    const int batch_head = first_head + (by_block ? rest % width : rest / args.row_tiles);
    round = index / static_cast<int>(gridDim.x);
    batch = batch_head / heads;
    head = share_of(batch_head - batch * heads, args.tile_parts);
    part = batch_head - batch * heads - head * args.tile_parts;
    key = block * kKeys;
    sequence.find(args, batch);
    if (key >= sequence.length_k) return false;
    see(args);
    return true;
  }
  // What follows from a block of keys and its sequence.
  TS_DEVICE void see(const TsCudaAttentionBackwardArgs& args) {
    window.start(args, sequence);
    tiles = window.query_tiles<kTileM>(key, kKeys);
    const int all = tile_count();
    tiles = {tiles.begin + share_of(all * part, args.tile_parts), tiles.begin + share_of(all * (part + 1), args.tile_parts)};
  }
  TS_DEVICE int head_of_keys(const TsCudaAttentionBackwardArgs& args) const { return share_of(head, args.head_parts); }
  // The part's place among those of the head of keys.
  TS_DEVICE int part_of_head(const TsCudaAttentionBackwardArgs& args) const {
    return (head - head_of_keys(args) * args.head_parts) * args.tile_parts + part;
  }
  TS_DEVICE static int heads_of_part(const TsCudaAttentionBackwardArgs& args) {
    return static_cast<int>(args.heads_q / args.heads_kv) / args.head_parts;
  }
  TS_DEVICE void store(u32 to) const {
    store_words(to, batch, head, key, round);
    store_words(to + 16, sequence.length_q, sequence.length_k, sequence.offset_q, sequence.offset_k);
    store_words(to + 32, sequence.work_row, part, 0, 0);
  }
  TS_DEVICE void load(u32 from, const TsCudaAttentionBackwardArgs& args) {
    int none;
    load_words(from, batch, head, key, round);
    load_words(from + 16, sequence.length_q, sequence.length_k, sequence.offset_q, sequence.offset_k);
    load_words(from + 32, sequence.work_row, part, none, none);
    see(args);
  }

 private:
  TS_DEVICE static void store_words(u32 to, int a, int b, int c, int d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  }
  TS_DEVICE static void load_words(u32 from, int& a, int& b, int& c, int& d) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
  }
};

// The producer's walk: item blockIdx.x first, then by an atomic counter, which the last block resets. With ordered
// additions the first item comes from the counter, too: a block that has begun has an item that may be waited for.
struct Walk {
  int index;

  TS_DEVICE void start(const TsCudaAttentionBackwardArgs& args) {
    if constexpr (cfg::kDeterministic) {
      draw(args);
    } else {
      index = blockIdx.x;
    }
  }
  TS_DEVICE void draw(const TsCudaAttentionBackwardArgs& args) {
    index = static_cast<int>((cfg::kDeterministic ? 0 : gridDim.x) + atomicAdd(args.tile_counters, 1u));
  }
  TS_DEVICE static void finish(const TsCudaAttentionBackwardArgs& args) {
    if (atomicAdd(args.tile_counters + 1, 1u) == gridDim.x - 1) {
      args.tile_counters[0] = 0;
      args.tile_counters[1] = 0;
    }
  }
};

struct ItemRing {
  RingPlace<kItemSlots> place;

  TS_DEVICE void push(const Shared& shared, const Item& t, int index) {
    mbarrier_wait(shared.item_empty(place.index), place.phase ^ 1);
    if constexpr (kSendsItems) {
      t.store(shared.item(place.index));
      mbarrier_arrive(shared.item_full(place.index));
      place.advance();
    } else {
      push_number(shared, index);
    }
  }
  // No more will come.
  TS_DEVICE void end(const Shared& shared) {
    mbarrier_wait(shared.item_empty(place.index), place.phase ^ 1);
    push_number(shared, -1);
  }

  // The next item; a negative number ends the work. One that was sent stays in the ring until done(): what its end needs is
  // found again, and takes no registers meanwhile.
  TS_DEVICE int take(const Shared& shared) {
    mbarrier_wait(shared.item_full(place.index), place.phase);
    int number;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(number) : "r"(shared.item(place.index)) : "memory");
    if constexpr (!kSendsItems) leave(shared);
    return number;
  }
  TS_DEVICE void find(const Shared& shared, const TsCudaAttentionBackwardArgs& args, int number, Item& t) const {
    if constexpr (kSendsItems) {
      t.load(shared.item(place.index), args);
    } else {
      t.find(args, number);
    }
  }
  TS_DEVICE void done(const Shared& shared) {
    if constexpr (kSendsItems) leave(shared);
  }

 private:
  TS_DEVICE void push_number(const Shared& shared, int number) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared.item(place.index)), "r"(number) : "memory");
    mbarrier_arrive(shared.item_full(place.index));
    place.advance();
  }
  TS_DEVICE void leave(const Shared& shared) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.item_empty(place.index));
    place.advance();
  }
};

}  // namespace ts
