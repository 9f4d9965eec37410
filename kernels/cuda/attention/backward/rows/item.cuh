// The work items of kernels that compute each gradient by blocks of its own rows: a gradient of kRows rows of a head, which
// walks the rows on the other side in steps of kStep.
//
// kPaired: items of dk and dv together, of half as many rows. Items that are the longest come first: of dq if there are such
// pairs and heads are not grouped, else of keys. Each part goes section by section; a section is as many heads as the host
// wants to share the L2 cache (section_heads, of keys). Within one those blocks come first that the most rows on the other side
// see.
//
// Where heads of keys have few items each may have a part of the group's heads (head_parts) and of their steps (tile_parts), and
// counts as of a head of keys of its own; sums of dk and dv in parts are added up by the kernel that converts dq.
#pragma once

#include "../window.cuh"

namespace ts {

enum class Gradient { dk, dv, dq, dk_dv };

template <int kRows, int kStep, bool kPaired = false>
struct ItemOfRows {
  Gradient gradient;
  int row;   // first row
  int head;  // of queries for dq, else of keys, or a part of its group
  int batch;
  int section;  // with gradients of scores that pass through memory
  Sequence sequence;
  Window window;
  Range steps;  // over the rows on the other side; may be empty

  // False when the block lies beyond its sequence's end.
  TS_DEVICE bool find(const TsCudaAttentionBackwardArgs& args, int index) {
    section = 0;
    const bool exists = kPaired && args.score_gradients != nullptr ? place_a_section_later(args, index) : place(args, index);
    return exists && see(args);
  }
  // The rest, of a block of rows.
  TS_DEVICE bool see(const TsCudaAttentionBackwardArgs& args) {
    sequence.find(args, batch);
    window.start(args, sequence);
    const bool is_dq = gradient == Gradient::dq;
    if (row >= (is_dq ? sequence.length_q : sequence.length_k)) return false;
    steps = is_dq ? window.key_tiles<kStep>(row, kRows)
                  : window.query_tiles<kStep>(row, gradient == Gradient::dk_dv ? kRows / 2 : kRows);
    if (!is_dq && args.tile_parts > 1) {
      const int all = step_count(), part = head % args.tile_parts;
      steps = {steps.begin + all * part / args.tile_parts, steps.begin + all * (part + 1) / args.tile_parts};
    }
    return true;
  }
  // Of an item of keys.
  TS_DEVICE static int parts(const TsCudaAttentionBackwardArgs& args) { return args.head_parts * args.tile_parts; }
  TS_DEVICE static int heads_of_part(const TsCudaAttentionBackwardArgs& args) {
    return share_of(static_cast<int>(args.heads_q / args.heads_kv), args.head_parts);
  }
  TS_DEVICE int head_of_keys(const TsCudaAttentionBackwardArgs& args) const { return share_of(head, parts(args)); }
  TS_DEVICE int first_head(const TsCudaAttentionBackwardArgs& args) const {
    return share_of(head, args.tile_parts) * heads_of_part(args);
  }
  // Items of keys and, a section later, those of queries, which read what the former wrote: keys 0, keys 1, queries 0, keys 2,
  // queries 1 and so on. Nothing is left to wait for when all of the section between have been drawn.
  TS_DEVICE bool place_a_section_later(const TsCudaAttentionBackwardArgs& args, int index) {
    const int heads_kv = static_cast<int>(args.heads_kv), group = static_cast<int>(args.heads_q) / heads_kv;
    const int all_heads = heads_kv * static_cast<int>(args.batch), width = args.section_heads;
    const int key_blocks = ceil_div(static_cast<int>(args.seqlen_k), kRows / 2);
    const int query_blocks = ceil_div(static_cast<int>(args.seqlen_q), kRows);
    const int of_keys = width * parts(args) * key_blocks, of_queries = width * group * query_blocks;
    bool is_dq = false;
    if (index >= of_keys) {
      index -= of_keys;
      section = index / (of_keys + of_queries);
      index -= section * (of_keys + of_queries);
      const int of_next_keys = (section + 1) * width < all_heads ? of_keys : 0;
      is_dq = index >= of_next_keys;
      if (is_dq) {
        index -= of_next_keys;
      } else {
        ++section;
      }
    }
    gradient = is_dq ? Gradient::dq : Gradient::dk_dv;
    const int blocks = is_dq ? query_blocks : key_blocks, of_head = is_dq ? group : parts(args), heads = of_head * heads_kv;
    int block = cfg::kMaskRight ? index / (width * of_head) : index % blocks;
    const int batch_head = section * width * of_head + (cfg::kMaskRight ? index % (width * of_head) : index / blocks);
    if (cfg::kMaskRight && is_dq) block = blocks - 1 - block;
    batch = batch_head / heads;
    head = batch_head - batch * heads;
    row = block * (is_dq ? kRows : kRows / 2);
    return batch < static_cast<int>(args.batch);
  }
  TS_DEVICE bool place(const TsCudaAttentionBackwardArgs& args, int index) {
    const int batches = static_cast<int>(args.batch);
    const int heads_kv = static_cast<int>(args.heads_kv) * parts(args);
    const int of_keys = 2 * args.row_tiles * heads_kv * batches;  // items of both gradients
    const bool keys_first = !kPaired || args.heads_q > args.heads_kv;
    const int second_part = keys_first ? of_keys : args.work_items - of_keys;
    const bool is_dq = (index >= second_part) == keys_first;
    if (index >= second_part) index -= second_part;
    gradient = is_dq ? Gradient::dq : kPaired ? Gradient::dk_dv : 2 * index < of_keys ? Gradient::dk : Gradient::dv;
    if (gradient == Gradient::dv) index -= of_keys / 2;
    const int rows = gradient == Gradient::dk_dv ? kRows / 2 : kRows;
    const int blocks = is_dq ? ceil_div(static_cast<int>(args.seqlen_q), kRows) : args.row_tiles * (kPaired ? 2 : 1);
    const int heads = is_dq ? static_cast<int>(args.heads_q) : heads_kv, all_heads = heads * batches;
    const int section_heads = args.section_heads * heads / static_cast<int>(args.heads_kv);
    const int section = index / (section_heads * blocks), first_head = section * section_heads;
    const int width = imin(section_heads, all_heads - first_head);
    index -= section * section_heads * blocks;
    // Behind a mask block by block over the section's heads, else head by head.
    const bool by_block = cfg::kMaskRight || cfg::kMaskLeft;
    int block = by_block ? index / width : index % blocks;
    const int batch_head = first_head + (by_block ? index % width : index / blocks);
    if (by_block && is_dq) block = blocks - 1 - block;
    batch = batch_head / heads;
    head = batch_head - batch * heads;
    row = block * rows;
    return true;
  }
  TS_DEVICE int step_count() const { return imax(0, steps.end - steps.begin); }
  // Behind a causal mask gradients of keys begin with the last queries, which every block sees.
  TS_DEVICE int step(int i) const {
    return cfg::kMaskRight && gradient != Gradient::dq ? steps.end - 1 - i : steps.begin + i;
  }
};

}  // namespace ts
