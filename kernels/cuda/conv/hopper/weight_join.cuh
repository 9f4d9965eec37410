// The second launch of backward weight whose pixels are split: adds up what the parts of each tile have left in memory.
#pragma once

#include "../../gemm/hopper/layout.cuh"
#include "../slices.cuh"
#include "weight_result.cuh"

namespace ts::conv {

TS_DEVICE void join_tiles(const TsCudaConvWeightArgs& args, unsigned char* shared) {
  TileWalk walk(args);
  const int units = walk.tiles_m * walk.tiles_n * args.batch * kCluster * kTileWarpgroups;
  const auto all = [](int) { return true; };
  // A quad is a thread's: columns 2q and 2q + 1 of rows g and g + 8, as tensor cores have them.
  add_slices<kThreads>(
      args.partials, args.splits, units, 128 * kRowBlocks * kSums, shared, all,
      [&](int unit, int quad, const float(&total)[4]) {
        const int block = unit / kTileWarpgroups, warpgroup = unit % kTileWarpgroups;
        Tile t;
        t.index = block / kCluster;
        walk.place(block % kCluster, t);
        const int thread = quad % 128, index = quad / 128;
        const int column = t.column + index % (kSums / 4) * 8 + 2 * (thread & 3);
        const int row = t.row + warpgroup * kWarpgroupRows + index / (kSums / 4) * 64 + thread / 32 * 16 + thread % 32 / 4;
        if (column >= args.n) return;
        const TapColumns to = TapColumns::at(args, column);
        const i64 first = t.batch * args.d_batch_stride + to.tap * args.tap_stride + to.channel;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int k = row + 8 * half;
          store_pair<cfg::kTypeD, true>(static_cast<char*>(args.d) + (first + k * args.d_stride) * bytes_of(cfg::kTypeD),
                                        pack_pair<cfg::kTypeD>(total[2 * half], total[2 * half + 1]),
                                        k < args.m ? args.channels - to.channel : 0);
        }
      });
}

}  // namespace ts::conv
