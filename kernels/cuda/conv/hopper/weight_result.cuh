// Which tiles backward weight has, which steps of them a block, and where their columns go: 64 of them are a block of
// channels of one tap, or of some taps a block of as many channels together.
#pragma once

#include "../../gemm/hopper/stream_k.cuh"
#include "abi.h"
#include "copies.cuh"

namespace ts::conv {

constexpr int kBlockChannels = 64 / cfg::kStepTaps;
static_assert(cfg::kStepTaps == 1 || cfg::kSplitK, "slabs have 64 columns of a tap");

// A tap and its first channel. Columns are counted tap by tap.
struct TapColumns {
  int tap, channel;

  static TS_DEVICE const TsCudaConvWeightArgs& own(const TsCudaGemmArgs& args) {
    return static_cast<const TsCudaConvWeightArgs&>(args);
  }
  static TS_DEVICE TapColumns at(const TsCudaConvWeightArgs& args, int column) {
    const int block = column / kBlockChannels, tap = block / args.blocks;
    return {tap, (block - tap * args.blocks) * kBlockChannels + column % kBlockChannels};
  }
  static TS_DEVICE void store(const TsCudaGemmMaps& maps, const TsCudaGemmArgs& args, const gemm::Tile&, u32 box,
                              int row, int column, int batch) {
    const TapColumns to = at(own(args), column);
    store_filters(&maps.d, box, to.channel, to.tap, row, batch);
  }
};

using WholeTiles = gemm::Walk<cfg::kTileM, cfg::kTileN, 64, cfg::kClusterM, cfg::kClusterN>;
// With split k: the parts of a tile take every args.splits-th step, so that all blocks pass over the same run of pixels
// at a time. A tile's `step` is the first.
struct SplitTiles : WholeTiles {
  TS_DEVICE explicit SplitTiles(const TsCudaGemmArgs& a) : WholeTiles(a) {}

  TS_DEVICE bool find(int item, int rank, gemm::Tile& t) {
    t.index = item / args.splits;
    t.split = t.step = item - t.index * args.splits;
    t.steps = ceil_div(all_steps - t.step, args.splits);
    return place(rank, t);
  }
};
template <bool kShared>
struct WeightTilesOf {
  using Type = SplitTiles;
};
template <>
struct WeightTilesOf<true> {
  using Type = gemm::SharedWalk<cfg::kTileM, cfg::kTileN, 64, cfg::kClusterM, cfg::kClusterN>;
};
using WeightTiles = WeightTilesOf<cfg::kStreamK>::Type;

}  // namespace ts::conv
