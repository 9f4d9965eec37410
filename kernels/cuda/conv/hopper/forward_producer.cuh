// The producer thread of the Hopper convolution: a step is a tap and a block of 128 bytes of channels, or some taps and
// blocks of as many bytes together. Of the image the copy engine brings the pixel that a tap meets from each of the tile's
// places, in whatever image it is, and zeros where that is outside (im2col); of the filters the tap's channels.
#pragma once

#include "../../gemm/hopper/launch_roles.cuh"
#include "abi.h"
#include "copies.cuh"

namespace ts::conv {

using namespace ts::gemm;

static_assert(kElementBytes <= 2 && !kMnMajorA && !kMnMajorB && kCluster == 1,
              "images of 8 or 16 bits with channels last, without clusters");

constexpr int kBlockChannels = kTileK / cfg::kStepTaps;

struct WindowProducer : Producer {
  const TsCudaConvWindow& window;

  // Image (0) and pixel (1 to 3) of a place.
  TS_DEVICE void find_place(int row, int (&at)[4]) const {
    at[0] = row;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      if (d < 3 - kSpatial) continue;
      const int outer = at[0] / window.places[d];
      at[d + 1] = window.first[d] + (at[0] - outer * window.places[d]) * window.step[d];
      at[0] = outer;
    }
  }

  TS_DEVICE void run(const TsCudaGemmArgs& args) {
    const int taps = window.taps[0] * window.taps[1] * window.taps[2];
    TileWalk walk(args);
    Tile t;
    for (int item = blockIdx.x; walk.find(item, 0, t); item += gridDim.x) {
      int at[4];
      find_place(t.row, at);
      int block = t.step * cfg::kStepTaps / taps, tap = t.step * cfg::kStepTaps - block * taps;
      int digit[3] = {tap / (window.taps[1] * window.taps[2]), tap / window.taps[2] % window.taps[1],
                      tap % window.taps[2]};
      for (int s = 0; s < t.steps; ++s) {
        const u32 full = shared.full(place.index);
        mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
        mbarrier_expect(full, kStageBytes);
#pragma unroll
        for (int i = 0; i < cfg::kStepTaps; ++i) {
          int offset[3];
#pragma unroll
          for (int d = 0; d < 3; ++d) offset[d] = window.offset[d] + digit[d] * window.tap_step[d];
          // Behind the last block of a group, where the last step has fewer taps, is nothing: neither is the next group.
          const int channel = kBlockChannels * block;
          if (cfg::kStepTaps > 1 && window.group_channels > 0 && channel >= window.group_channels) at[0] = args.m;
          load_places(shared.tile_a(place.index) + i * cfg::kTileM * kRegionRowBytes, &maps.a, full,
                      t.batch * window.group_channels + channel, at, offset);
          load_filters(shared.tile_b(place.index) + i * cfg::kTileN * kRegionRowBytes, &maps.b, full, channel, tap,
                       t.column, t.batch);
          ++tap;
          if (++digit[2] == window.taps[2]) {
            digit[2] = 0;
            if (++digit[1] == window.taps[1]) {
              digit[1] = 0;
              ++digit[0];
            }
          }
          if (tap == taps) {
            tap = digit[0] = 0;
            ++block;
          }
        }
        place.advance();
      }
      load_tensor(args, t, t.batch);
    }
  }
};

}  // namespace ts::conv
