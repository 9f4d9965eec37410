// Where the columns of backward weight's tiles go: 64 of them are a block of channels of one tap.
#pragma once

#include "../../gemm/walk.cuh"
#include "abi.h"
#include "copies.cuh"

namespace ts::conv {

constexpr int kBlockChannels = 64;

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

}  // namespace ts::conv
