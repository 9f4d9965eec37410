// Queries that see no key and stand in front of a head's first tile: their outputs are zeros. Warps of the producer's
// warpgroup that nothing else needs write them while the tiles are computed.
#pragma once

#include "layout.cuh"

namespace ts {

TS_DEVICE void write_hidden_rows(const TsCudaAttentionArgs& args) {
  constexpr int kStrip = 64;                   // rows that a warp writes before it works out another head's place
  constexpr int kChunks = cfg::kHeadDimV / 8;  // of 16 bytes, of a row
  constexpr int kAtOnce = 32 / kChunks;        // rows
  const int hidden = args.first_tile * (kTileM / cfg::kPackGqa), strips = ceil_div(hidden, kStrip);
  const int heads = static_cast<int>(args.heads_q), units = static_cast<int>(args.batch) * heads * strips;
  const int lane = threadIdx.x & 31, warp = static_cast<int>(threadIdx.x / 32) - (4 - kFreeWarps);
#pragma unroll 1
  for (int unit = blockIdx.x * kFreeWarps + warp; unit < units; unit += gridDim.x * kFreeWarps) {
    const int batch_head = unit / strips, batch = batch_head / heads, head = batch_head - batch * heads;
    const int first = (unit - batch_head * strips) * kStrip, end = imin(first + kStrip, hidden);
    char* const out = static_cast<char*>(args.o) + 2 * (batch * args.o_strides.batch + head * args.o_strides.head) +
                      lane % kChunks * 16;
    const int own = lane / kChunks < kAtOnce ? first + lane / kChunks : end;
#pragma unroll 1
    for (int query = own; query < end; query += kAtOnce) {
      asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(out + 2 * (query * args.o_strides.row)), "r"(0)
                   : "memory");
    }
    if (cfg::kLse && args.lse != nullptr) {
      const float lse = cfg::kSink && args.sink != nullptr ? args.sink[head] : -kInfinity;
#pragma unroll 1
      for (int query = first + lane; query < end; query += 32)
        args.lse[batch * args.lse_strides.batch + head * args.lse_strides.head + query * args.lse_strides.row] = lse;
    }
  }
}

}  // namespace ts
