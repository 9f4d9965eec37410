// Gradients of scores that items of keys store and items of dq read, so that these compute one product instead of three: five in
// all, for 4 bytes a pair that pass through L2 or memory. To add dq there would take 16.
//
// A tile is 64 keys by 64 queries of 16 bits, as accumulators of S^T hold them, packed: [16 queries][warp, of 16 keys][lane][4
// registers]. A warp of the reader has 16 queries, 2048 bytes that follow one another; its operand is that of the writer with
// each 8 by 8 transposed.
#pragma once

#include "layout.cuh"

namespace ts {

constexpr int kTileBytes = kStep * kStep * 2;
constexpr int kTileWords = kTileBytes / 4;
constexpr int kBlockWords = kStep * 8;  // of 16 queries

TS_DEVICE bool passes_gradients(const TsCudaAttentionBackwardArgs& args) {
  return kPassesGradients && args.score_gradients != nullptr;
}

TS_DEVICE int group_of(const TsCudaAttentionBackwardArgs& args) { return static_cast<int>(args.heads_q / args.heads_kv); }
TS_DEVICE unsigned* keys_done(const TsCudaAttentionBackwardArgs& args, int batch, int head) {
  return args.progress + batch * args.heads_kv + head;
}
TS_DEVICE unsigned* queries_done(const TsCudaAttentionBackwardArgs& args, int section) {
  return args.progress + args.batch * args.heads_kv + section;
}

// Waits until the section that had a section's places before has been read: then all before that have been, too.
TS_DEVICE void wait_for_room(const TsCudaAttentionBackwardArgs& args, int section) {
  const int before = section - TS_CUDA_BACKWARD_SECTIONS;
  if (before < 0) return;
  const int items = args.section_heads * group_of(args) * ceil_div(static_cast<int>(args.seqlen_q), kRows);
  wait_for_value(queries_done(args, before), kWarpgroups * items);
}

// The first tile of a head and a block of keys.
TS_DEVICE unsigned* tiles_of(const TsCudaAttentionBackwardArgs& args, int section, int batch, int head, int key_block) {
  const int heads = args.section_heads * group_of(args);
  const int of_section = batch * static_cast<int>(args.heads_q) + head - section * heads;
  const i64 place = section % TS_CUDA_BACKWARD_SECTIONS * heads + of_section;
  const int key_blocks = ceil_div(static_cast<int>(args.seqlen_k), kStep);
  const int query_blocks = ceil_div(static_cast<int>(args.seqlen_q), kStep);
  return args.score_gradients + (place * key_blocks + key_block) * query_blocks * kTileWords;
}

// Of an item of keys.
struct ScoreGradients {
  unsigned* tiles;  // of a head, the thread's part

  TS_DEVICE void start(const TsCudaAttentionBackwardArgs& args, int section) const {
    if (threadIdx.x % 32 == 0) wait_for_room(args, section);
    __syncwarp();
  }
  TS_DEVICE void enter(const TsCudaAttentionBackwardArgs& args, int section, int batch, int head, int key_block) {
    tiles = tiles_of(args, section, batch, head, key_block) + threadIdx.x % 128 * 4;
  }
  TS_DEVICE void store(int query_block, const u32 (&gradients)[kStep / 4]) const {
    unsigned* const to = tiles + i64{query_block} * kTileWords;
#pragma unroll
    for (int i = 0; i < kStep / 16; ++i)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * kBlockWords), "r"(gradients[4 * i]),
                   "r"(gradients[4 * i + 1]), "r"(gradients[4 * i + 2]), "r"(gradients[4 * i + 3])
                   : "memory");
  }
};

// What the producer brings of them: for an item of dq two tiles of queries beside one another, of one block of keys after another.
// What there is to read is there: of no item of dq is it said that it is done before that is said of the section's places before.
TS_DEVICE void wait_for_keys(const TsCudaAttentionBackwardArgs& args, const Item& t, bool exists) {
  wait_for_room(args, t.section);  // of sequences without keys or queries nobody else has
  if (!exists) return;
  wait_for_value(keys_done(args, t.batch, t.head / group_of(args)), ceil_div(t.sequence.length_k, kStep) * Item::parts(args));
  fence_proxy_async();  // copies read what threads have written
}
struct PassedTiles {
  const unsigned* first;
  i64 stride;  // of blocks of keys
  u32 bytes;

  TS_DEVICE PassedTiles(const TsCudaAttentionBackwardArgs& args, const Item& t) {
    const int query_blocks = ceil_div(static_cast<int>(args.seqlen_q), kStep), block = t.row / kStep;
    first = tiles_of(args, t.section, t.batch, t.head, 0) + i64{block} * kTileWords;
    stride = i64{query_blocks} * kTileWords;
    bytes = kTileBytes * imin(kWarpgroups, query_blocks - block);
  }
  TS_DEVICE const unsigned* of_keys(int block) const { return first + block * stride; }
};

// The warp's 16 queries by 64 keys of a tile in shared memory, as an operand. Of each 16 by 16 the second and third 8 by 8
// change places.
TS_DEVICE void load_passed(u32 tile, u32 (&weights)[kStep / 4]) {
  const u32 from = tile + threadIdx.x / 32 % 4 * (kBlockWords * 4) + threadIdx.x % 32 * 16;
#pragma unroll
  for (int i = 0; i < kStep / 4; i += 4) {
    u32 stored[4];
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(stored[0]), "=r"(stored[1]), "=r"(stored[2]), "=r"(stored[3])
                 : "r"(from + i * 128)
                 : "memory");
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                   : "=r"(weights[i + (j == 1 ? 2 : j == 2 ? 1 : j)])
                   : "r"(stored[j]));
  }
}

}  // namespace ts
