// Dropout with shared memory at hand. Each lane of the four that share a row draws for another group of eight keys and
// needs one word of each group: a store and a load exchange them in a third of the instructions that shuffles take. A
// warp's words lie in chunks of 16 bytes, one a draw, in an order in which neither the stores nor the loads of a warp
// meet in a bank. They are the warp's own: no barrier but the warp's.
//
// Drawing while the tensor cores score the block would hide nothing: wgmma and integer multiplications need the same
// ports of the register file.
#pragma once

#include "../logits.cuh"
#include "scheduler.cuh"

namespace ts {

// Where a warp keeps the draw for key group `group` (of four) of row `row` (of eight).
TS_DEVICE u32 word_piece(u32 group, u32 row) {
  return (8 * group + (row + 2 * group) % 8) * 16;
}

// Zeroes dropped probabilities, after the row sums. `key` is the block's first key, `words` the warp's place.
TS_DEVICE void drop_through(u32 words, const TsCudaAttentionArgs& args, const Rows& rows, int key,
                            float (&s)[kScores]) {
  const u32 lane = threadIdx.x & 31;
  __syncwarp();  // the words of the block before have been read
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    Philox philox;
    philox.start(args, static_cast<u32>(rows.batch * args.heads_q + rows.head[row]));
#pragma unroll
    for (int t = 0; t < cfg::kTileN / 32; ++t) {
      u32 w[4];
      philox.draw(key / 8 + 4 * t + (lane & 3), rows.query[row], w);
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(words + (2 * t + row) * 512 +
                                                                      word_piece(lane & 3, lane >> 2)),
                   "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                   : "memory");
    }
  }
  __syncwarp();
#pragma unroll
  for (int t = 0; t < cfg::kTileN / 32; ++t) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int group = 0; group < 4; ++group) {
        u32 word;
        asm volatile("ld.shared.b32 %0, [%1];"
                     : "=r"(word)
                     : "r"(words + (2 * t + row) * 512 + word_piece(group, lane >> 2) + (lane & 3) * 4)
                     : "memory");
        const int i = 4 * (4 * t + group) + 2 * row;
        drop_pair(word, args.drop_threshold << 16, s[i], s[i + 1]);
      }
    }
  }
}

}  // namespace ts
