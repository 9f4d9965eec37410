// The producer thread of backward weight: a step is 64 pixels of y, and for each block of the tile's columns what a tap
// meets from there (im2col). Columns and rows beyond the last come from nowhere and go nowhere: they are not copied.
#pragma once

#include "../../gemm/hopper/launch_roles.cuh"
#include "weight_result.cuh"

namespace ts::conv {

using namespace ts::gemm;

static_assert(kElementBytes == 2 && kMnMajorA && kMnMajorB, "16-bit tensors");
static_assert(cfg::kTileM % kTileK == 0 && cfg::kTileN % kTileK == 0, "columns are copied as blocks");

struct WeightProducer : Producer {
  // Image (0) and pixel (1 to 3).
  using At = int[4];

  // The number of a place as image and coordinates of the window.
  static TS_DEVICE void digits_of(const TsCudaConvWindow& window, int number, At& at) {
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      if (d < 3 - kSpatial) continue;
      const int outer = number / window.places[d];
      at[d + 1] = number - outer * window.places[d];
      number = outer;
    }
    at[0] = number;
  }

  TS_DEVICE void run(const TsCudaGemmArgs& all) {
    const TsCudaConvWeightArgs& args = TapColumns::own(all);
    const TsCudaConvWindow& window = args.window;
    At stride{};  // from step to step
    const int apart = cfg::kSplitK ? args.splits : 1;
    digits_of(window, apart * kTileK, stride);
    constexpr int kBlocksB = cfg::kTileN / kBlockChannels, kBlockBytes = kTileK * kColumnRowBytesB;
    constexpr int kOwnA = kColumnsA / cfg::kClusterN, kOwnB = kBlocksB / cfg::kClusterM;
    const int at_m = rank % cfg::kClusterM, at_n = rank / cfg::kClusterM;
    const int own_a = at_n * kOwnA, own_b = at_m * kOwnB;
    const u32 mask_a = blocks_of_row(at_m), mask_b = blocks_of_column(at_n);
    TileWalk walk(args);
    Tile t;
    for (int item = blockIdx.x / kCluster; walk.find(item, rank, t); item += gridDim.x / kCluster) {
      int channel[kOwnB], offset[kOwnB][3];
      const TapColumns first = TapColumns::at(args, t.column + own_b * kBlockChannels);
      int tap = first.tap, c = first.channel;
#pragma unroll
      for (int i = 0; i < kOwnB; ++i) {
        channel[i] = t.batch * window.group_channels + c;
        const int rest = tap / window.taps[2];
        offset[i][2] = (tap - rest * window.taps[2]) * window.tap_step[2];
        offset[i][1] = rest % window.taps[1] * window.tap_step[1];
        offset[i][0] = rest / window.taps[1] * window.tap_step[0];
        c += kBlockChannels;
        if (c == args.blocks * kBlockChannels) {
          c = 0;
          ++tap;
        }
      }
      const int columns_a = imax(imin(ceil_div(args.m - t.row, kTileK), kColumnsA), 0);
      const int blocks_b = imax(imin(args.n / kBlockChannels - t.column / kBlockChannels, kBlocksB), 0);
      At place_at{};
      digits_of(window, t.step * kTileK, place_at);
      for (int s = 0; s < t.steps; ++s) {
        const u32 full = shared.full(place.index);
        mbarrier_wait(shared.empty(place.index), place.phase ^ 1);
        mbarrier_expect(full, columns_a * kColumnBytes + blocks_b * kBlockBytes);
#pragma unroll
        for (int i = 0; i < kOwnA; ++i)
          if (own_a + i < columns_a)
            load(shared.tile_a(place.index) + (own_a + i) * kColumnBytes, &maps.a, full, t.row + kTileK * (own_a + i),
                 (t.step + s * apart) * kTileK, t.batch, mask_a, cfg::kClusterN > 1);
        int at[4] = {place_at[0], 0, 0, 0};
#pragma unroll
        for (int d = 3 - kSpatial; d < 3; ++d) at[d + 1] = window.first[d] + place_at[d + 1] * window.step[d];
#pragma unroll
        for (int i = 0; i < kOwnB; ++i)
          if (own_b + i < blocks_b) {
            const u32 to = shared.tile_b(place.index) + (own_b + i) * kBlockBytes;
            if constexpr (cfg::kClusterM > 1)
              load_places_multicast(to, &maps.b, full, channel[i], at, offset[i], mask_b);
            else
              load_places(to, &maps.b, full, channel[i], at, offset[i]);
          }
        place.advance();
        int carry = 0;
#pragma unroll
        for (int d = 2; d >= 3 - kSpatial; --d) {
          place_at[d + 1] += stride[d + 1] + carry;
          carry = place_at[d + 1] >= window.places[d];
          if (carry) place_at[d + 1] -= window.places[d];
        }
        place_at[0] += stride[0] + carry;
      }
    }
  }
};

}  // namespace ts::conv
