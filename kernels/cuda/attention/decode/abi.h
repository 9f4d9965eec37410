// What a CUDA decode kernel is called with: attention forward, and how the keys are shared out.
//
// An item is a tile of rows of one key head of one sequence. Its keys are cut into pieces of `piece_tiles` blocks of
// keys, one block of threads each, or left whole. A piece that is not the item's only one leaves a partial result. The
// last of an item's pieces to arrive joins them all, in ascending order; where they are more than a group, the last of
// each group joins that group's first, and the last of these the groups'.
#pragma once

#include "../abi.h"

// Of a partial result: floats of a row beside its values. The first is the row's base in units of log2 (-infinity when
// it saw nothing), the second its sum; the others keep the values of the next row aligned.
#define TS_DECODE_STATE_FLOATS 4

// Pieces of a group: of wide values few, for one block reads them all.
constexpr int ts_decode_group(int head_dim_v) {
  return head_dim_v > 256 ? 8 : 16;
}
// Of a launch that joins: columns of a row that a team of warps takes, of which a row has so many times as many; what a
// lane's result takes of shared memory, beside which a thread's item and a warp's count lie (found_join.cuh); and blocks for
// the rows of an item.
#define TS_DECODE_JOIN_COLUMNS 128
#define TS_DECODE_JOIN_LANE_BYTES 32
constexpr int ts_decode_join_units(int head_dim_v) {
  return (head_dim_v + TS_DECODE_JOIN_COLUMNS - 1) / TS_DECODE_JOIN_COLUMNS;
}
constexpr int ts_decode_join_bytes(int threads) {
  return threads * (TS_DECODE_JOIN_LANE_BYTES + 4) + threads / 32 * 4;
}
constexpr int ts_decode_join_blocks(int rows, int head_dim_v, int threads, int join_warps, int join_units) {
  return (rows * ts_decode_join_units(head_dim_v) / join_units * join_warps + threads / 32 - 1) / (threads / 32);
}
constexpr long long ts_decode_groups(long long pieces, int head_dim_v) {
  return (pieces + ts_decode_group(head_dim_v) - 1) / ts_decode_group(head_dim_v);
}

// Who joins an item's partial results: the last of its pieces to arrive, or a second launch of the same kernel, which
// the first leaves them to (parts_join.cuh), or of another that looks for what is cut (found_join.cuh). Where args.cluster is
// not 0, they are joined in no memory.
#define TS_DECODE_LAST_JOINS 0
#define TS_DECODE_LEAVES_PARTS 1
#define TS_DECODE_JOINS 2

// Tensor maps of keys and values, by value as a __grid_constant__ parameter: dimensions {head_dim, seqlen_k, heads_kv, batch}
// with boxes of {64, map_rows, 1, 1}, as in ../hopper/attention_fwd.cuh. A page is a member of the batch. Kernels of latent
// rows have no values of their own. Latent rows of 8 bits are words of four elements, and a box's rows as long as the pitch
// of hopper/narrow_layout.cuh.
struct TsCudaKeyMaps {
  TsCudaTensorMap k, v;
};

// New keys and values of the queries' tokens, which a call writes before it attends; the meaning is that of
// tilesmith/attention.hpp's AttentionAppend. Every row is whole chunks of 16 bytes, at multiples of 16 bytes.
struct TsCudaNewKeys {
  const void *k, *v;  // null: the call brings none, and queries are not turned
  void* q_out;         // where turned queries go; not q, for every block of a key head reads that; null: nowhere
  TsStrides k_strides, v_strides, q_out_strides;
  const long long* positions;  // null: they follow from the lengths
  const float *rotary_cos, *rotary_sin;
  long long rotary_positions, rotary_row_stride;
  int rotary_dim;  // a multiple of 16
  int interleaved;
};

struct TsCudaDecodeArgs : TsCudaAttentionArgs {
  // Of each item one, and one for each group; zero before the first launch, and every launch leaves them zero.
  unsigned int* counters;
  float* partials;  // [item][piece, then group][row][head_dim_v + TS_DECODE_STATE_FLOATS]
  // Of a list: how many pieces have been taken beside each block's first; as counters. Null: there are no more pieces
  // than blocks.
  unsigned int* queue;
  int piece_tiles;         // blocks of keys of a piece, from a list at least
  int wanted_pieces;       // of a list: pieces become longer until the batch has about so many; 0: they do not
  int wanted_of_even;      // the same where all sequences have as many keys; 0: as many as elsewhere
  int long_first;          // of a queue: pieces less than half as long as others come last, of latent rows those of a
                           // sequence that has pieces for most of the blocks first; the batch has no more than 128
                           // sequences, and fewer than 65536 pieces
  int most_pieces;         // of an item, whose pieces then follow from itself alone; 0: they do not
  int whole_heads;         // of tensors: so many key heads, of all sequences, are not cut; the pieces of others come behind
  int prefetch_tiles;      // of tensors: blocks of keys that a piece brings into L2 before it may read them
  int end_tiles;           // that are left when a piece lets the next kernel start, of a list at once; 0: when it has ended
  int pieces;              // of the longest item
  int row_blocks;          // tiles of rows of a key head of the longest sequence
  int part_rows;           // of a partial: those of a tile that may have a query
  int group;               // query heads of a key head
  int join;                // TS_DECODE_..
  int join_warps;          // of a launch that joins: those that share a row's parts out
  int join_units;          // of it: those of a row that a warp takes at once, of one of four; with one warp alone
  int join_blocks;         // of one that looks for what is cut: those of an item's rows
  int cluster;             // every item has so many pieces, which the blocks of a cluster join through shared memory: of a
                           // list by decode_wgmma of latent rows, whose clusters may be pairs (hopper/cluster_join.cuh), and
                           // by mma.sync tiles of 16 rows but in group mode; 0: none
  int* piece_counts;       // of each item of a list, for a launch that joins
  TsCudaNewKeys append;    // of pages and keys of the queries' type alone
};
