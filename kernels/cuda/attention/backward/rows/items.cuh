// The work items: a gradient of 128 rows of a head. The producer draws them and hands their numbers to the consumers.
//
// Gradients of keys come first: with grouped heads their items are the longest. Within a gradient those blocks come
// first that the most rows on the other side see.
#pragma once

#include "../../hopper/ring_place.cuh"
#include "../window.cuh"
#include "layout.cuh"

namespace ts {

struct Item {
  Gradient gradient;
  int row;   // first row
  int head;  // of queries for dq, else of keys
  int batch;
  Sequence sequence;
  Window window;
  Range steps;  // over the rows on the other side; may be empty

  // False when the block lies beyond its sequence's end.
  TS_DEVICE bool find(const TsCudaAttentionBackwardArgs& args, int index) {
    const int batches = static_cast<int>(args.batch);
    const int of_keys = args.row_tiles * static_cast<int>(args.heads_kv) * batches;
    gradient = index < of_keys ? Gradient::dk : index < 2 * of_keys ? Gradient::dv : Gradient::dq;
    const bool is_dq = gradient == Gradient::dq;
    index -= is_dq ? 2 * of_keys : gradient == Gradient::dv ? of_keys : 0;
    const int blocks = is_dq ? ceil_div(static_cast<int>(args.seqlen_q), kRows) : args.row_tiles;
    const int heads = static_cast<int>(is_dq ? args.heads_q : args.heads_kv);
    // Behind a mask block by block over all heads, else head by head.
    const bool by_block = cfg::kMaskRight || cfg::kMaskLeft;
    const int all_heads = heads * batches;
    int block = by_block ? index / all_heads : index % blocks;
    const int batch_head = by_block ? index % all_heads : index / blocks;
    if (by_block && is_dq) block = blocks - 1 - block;
    batch = batch_head / heads;
    head = batch_head - batch * heads;
    row = block * kRows;
    sequence.find(args, batch);
    window.start(args, sequence);
    if (row >= (is_dq ? sequence.length_q : sequence.length_k)) return false;
    steps = is_dq ? window.key_tiles<kStep>(row, kRows) : window.query_tiles<kStep>(row, kRows);
    return true;
  }
};

struct ItemRing {
  RingPlace<kItemSlots> place;

  TS_DEVICE void push(const Shared& shared, int index) {
    mbarrier_wait(shared.item_empty(place.index), place.phase ^ 1);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared.item(place.index)), "r"(index) : "memory");
    mbarrier_arrive(shared.item_full(place.index));
    place.advance();
  }
  // A negative number ends the work.
  TS_DEVICE int pop(const Shared& shared) {
    mbarrier_wait(shared.item_full(place.index), place.phase);
    int index;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(index) : "r"(shared.item(place.index)) : "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.item_empty(place.index));
    place.advance();
    return index;
  }
};

}  // namespace ts
