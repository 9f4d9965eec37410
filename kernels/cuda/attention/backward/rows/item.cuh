// The work items of kernels that compute each gradient by blocks of its own rows: a gradient of kRows rows of a head, which
// walks the rows on the other side in steps of kStep.
//
// Gradients of keys come first: with grouped heads their items are the longest. Within a gradient those blocks come
// first that the most rows on the other side see.
#pragma once

#include "../window.cuh"

namespace ts {

enum class Gradient { dk, dv, dq };

template <int kRows, int kStep>
struct ItemOfRows {
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

}  // namespace ts
