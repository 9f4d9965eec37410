// The producer thread of backward data: a step is one tap of the tile's phase and a block of 64 channels of y, or some taps
// and blocks of as many channels together.
#pragma once

#include "../../gemm/hopper/launch_roles.cuh"
#include "phase_walk.cuh"

namespace ts::conv {

using namespace ts::gemm;

static_assert(kElementBytes == 2 && !kMnMajorA && kMnMajorB && kCluster == 1, "16-bit tensors, without clusters");

constexpr int kBlockChannels = kTileK / cfg::kStepTaps;

struct PhaseProducer : Producer {
  TS_DEVICE void run(const TsCudaGemmArgs& all) {
    const TsCudaConvPhaseArgs& args = phase_args(all);
    TileWalk walk(args);
    Tile t;
    for (int item = blockIdx.x; walk.find(item, 0, t); item += gridDim.x) {
      const TsCudaConvPhase& phase = args.phase[t.split];
      const TsCudaTensorMap* const image = &maps.a + behind_map_a(t.split);
      int at[4];
      find_place(phase, t.row, at);
#pragma unroll
      for (int d = 0; d < 3; ++d) at[d + 1] += phase.first[d];
      // What no tap meets is behind the last image, and behind the last tap.
      const bool none = phase.taps[2] == 0;
      if (none) at[0] = args.m;
      int block = 0, digit[3] = {};
      for (int s = 0; s < t.steps; ++s) {
        const u32 full = shared.full(place.index);
        mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
        mbarrier_expect(full, kBytesA + kColumnsB * kTileK * kColumnRowBytesB);
#pragma unroll
        for (int i = 0; i < cfg::kStepTaps; ++i) {
          int offset[3], tap = 0;
#pragma unroll
          for (int d = 0; d < 3; ++d) {
            offset[d] = phase.offset[d] + digit[d] * phase.tap_step[d];
            tap = tap * args.filter[d] + phase.filter_tap[d] + digit[d] * phase.filter_step[d];
          }
          if (none) tap = args.filter[0] * args.filter[1] * args.filter[2];
          // Behind the last block of a group, where the last step has fewer taps, is nothing: neither is the next group.
          const int channel = kBlockChannels * block;
          if (cfg::kStepTaps > 1 && args.group_channels > 0 && channel >= args.group_channels) at[0] = args.m;
          load_places(shared.tile_a(place.index) + i * cfg::kTileM * kRegionRowBytes, image, full,
                      t.batch * args.group_channels + channel, at, offset);
#pragma unroll
          for (int column = 0; column < kColumnsB; ++column)
            load_filters(shared.tile_b(place.index) + column * kColumnBytes + i * kBlockChannels * kColumnRowBytesB,
                         &maps.b, full, t.column + kTileK * column, tap, channel, t.batch);
          if (++digit[2] >= phase.taps[2]) {
            digit[2] = 0;
            if (++digit[1] >= phase.taps[1]) {
              digit[1] = 0;
              if (++digit[0] >= phase.taps[0]) {
                digit[0] = 0;
                ++block;
              }
            }
          }
        }
        place.advance();
      }
      load_tensor(args, t, t.batch);
    }
  }
};

}  // namespace ts::conv
