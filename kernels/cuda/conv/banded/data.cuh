// Depthwise convolution on tensor cores for Hopper (sm_90a), forward and backward data, of 16-bit tensors whose results
// meet neighbouring pixels (planes.cuh says how). A warp takes its channels in twos: a tile's results of a channel are two
// sums, of even and odd rows.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB, kTypeD    of x (backward data: of y), of w and of the result: one of bf16 and f16
//   kImages, kRows, kColumns  of a tile: 1 of 16 x 16 results, by 4 warps (kWarps), or 4 of 8 x 8 by 8
//   kPace, kChannels          1
//   kTaps                     the most taps of a column and of a row of the filter that meet a result: odd, at most 9
//   kBlocksPerSm, kStages     tiles that are brought ahead: 1 or 2
//   kColumnsFirst (bool), false; kTilesApart (bool), true
//   kPairs (bool), false: channels are rows of the epilogue; kEpilogueLength, kEpilogue[], kEpilogueTypes[], without
//                             tensors, and what else gemm's files ask for
// Groups are neighbours in all tensors but w, a multiple of 8 of them; pixels begin at multiples of 16 bytes. Taps of w
// are equally far apart; one of them along the outer coordinate meets a result.
//
// Launch: args.lanes is 16: a block has 32 channels. kThreads threads; kSharedBytes of dynamic shared memory; a grid of
// args.splits * ceil(groups / 32) blocks.
#pragma once

#include "../../gemm/epilogue.cuh"
#include "../channel_place.cuh"
#include "../store.cuh"
#include "planes.cuh"

namespace ts::conv {

// A row of the filter, from eight zeros on, as element d + 8 is the weight of tap d; and the same an element further to
// the left, so that any two neighbours are a word of one of them.
constexpr int kShiftedBytes = 48, kBandRowBytes = 2 * kShiftedBytes;
constexpr int kBandBytes = cfg::kTaps * kBandRowBytes;
constexpr int kPlaneOffset = cfg::kStages * kTileBytes;
constexpr int kBandOffset = kPlaneOffset + kChannels * plane_bytes(kTileRows), kStepOffset = kBandOffset + kChannels * kBandBytes;
constexpr int kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
static_assert(cfg::kWarps == (kSmall ? 2 : 1) * kOctets);

struct BandedData {
  static constexpr int kTogether = 2;      // channels
  static constexpr int kTwos = (cfg::kTaps + 1) / 2;  // of rows that two neighbouring rows of results meet
  using Sums = float[2][4];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE const TsConvStrides& out_strides() const { return kForward ? args.y_strides : args.x_strides; }
  TS_DEVICE u32 tile(int stage) const { return smem_address(shared) + stage * kTileBytes; }
  TS_DEVICE int plane_offset(int channel) const { return kPlaneOffset + channel * plane_bytes(kTileRows); }
  TS_DEVICE u32 plane(int channel) const { return smem_address(shared) + plane_offset(channel); }
  TS_DEVICE unsigned char* bands() const { return shared + kBandOffset; }
  TS_DEVICE Step* steps() const { return reinterpret_cast<Step*>(shared + kStepOffset); }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }
  TS_DEVICE int channels() const { return imin(static_cast<int>(args.groups) - first_channel, kChannels); }

  TS_DEVICE void load_bands(const Step& s) const {
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kBandBytes / 16; i += kThreads)
      reinterpret_cast<uint4*>(bands())[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const TsConvStrides& strides = args.w_strides;
    const i64 step = args.filter[2] > 1 ? strides.spatial[2] : args.filter[1] > 1 ? strides.spatial[1] : strides.spatial[0];
    const char* const w = static_cast<const char*>(args.w);
    constexpr int kOfChannel = cfg::kTaps * cfg::kTaps;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kOfChannel; i += kThreads) {
      const int channel = i / kOfChannel, y = i % kOfChannel / cfg::kTaps, x = i % cfg::kTaps;
      if (channel >= channels() || y >= s.taps_h || x >= s.taps_w) continue;
      const i64 tap = s.tap + y * s.tap_h + x * s.tap_w;
      const u32 bits = load_bits<2>(w + ((first_channel + channel) * strides.group + tap * step) * 2);
      unsigned char* const row = bands() + channel * kBandBytes + y * kBandRowBytes;
      reinterpret_cast<unsigned short*>(row)[x + 8] = static_cast<unsigned short>(bits);
      reinterpret_cast<unsigned short*>(row + kShiftedBytes)[x + 7] = static_cast<unsigned short>(bits);
    }
  }

  // What the products of a channel are made of.
  TS_DEVICE void load(int channel, u32 (&x)[kTwos][2][4], u32 (&band)[cfg::kTaps][2]) const {
#pragma unroll
    for (int i = 0; i < kTwos; ++i) load_rows<false>(x[i], plane(channel), 2 * i);
    // Element k of column n: tap k - n.
    const int column = lane() / 4, tap = 2 * (lane() & 3) - column + 8;
    const unsigned char* const own =
        bands() + channel * kBandBytes + (column & 1 ? kShiftedBytes + (tap - 1) * 2 : tap * 2);
#pragma unroll
    for (int r = 0; r < cfg::kTaps; ++r) {
      band[r][0] = *reinterpret_cast<const u32*>(own + r * kBandRowBytes);
      band[r][1] = *reinterpret_cast<const u32*>(own + r * kBandRowBytes + 16);
    }
  }

  static TS_DEVICE void multiply(const u32 (&x)[4], const u32 (&band)[cfg::kTaps][2], int i, Sums& sums) {
    if (i < cfg::kTaps) multiply_add(sums[0], x[0], x[1], x[2], x[3], band[i][0], band[i][1]);
    if (i > 0) multiply_add(sums[1], x[0], x[1], x[2], x[3], band[i - 1][0], band[i - 1][1]);
  }

  // The same sums where pixels are not finite, which a band's zeros must not meet: an element at a time.
  TS_DEVICE void multiply_elements(const Step& s, int channel, Sums& sums) const {
    const unsigned char* const from = shared + plane_offset(channel);
    const unsigned char* const band = bands() + channel * kBandBytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int e = i / 4, octet = i / 2 % 2;
      const unsigned char* const of_pair = from + pair_at(kTileRows, lane() / 4, octet) + (2 * (lane() & 3) + i % 2) * 2;
      float sum = 0.0f;
#pragma unroll 1
      for (int tap = 0; tap < s.taps_h * s.taps_w; ++tap) {
        const int r = tap / s.taps_w, at = e + r, of_row = tap - r * s.taps_w;
        const unsigned char* const x = of_pair + (at & 1) * half_bytes(kTileRows) + at / 2 * kPlaneRowBytes + of_row * 2;
        sum = fmaf(element(x), element(band + r * kBandRowBytes + (of_row + 8) * 2), sum);
      }
      sums[e][i % 4] = sum;
    }
  }
  static TS_DEVICE float element(const unsigned char* p) {
    Pair<cfg::kTypeA> pair;
    pair.words[0] = *reinterpret_cast<const unsigned short*>(p);
    float low, high;
    unpack<cfg::kTypeA>(pair, low, high);
    return low;
  }

  TS_DEVICE void apply_epilogue(int channel, Sums& sums) const {
    if constexpr (cfg::kEpilogueLength > 0) {
      const int number = first_channel + channel;
      const ChannelPlace place{number, 0, number + 1, 16};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float v[8] = {sums[e][0], sums[e][1], 0.0f, 0.0f, sums[e][2], sums[e][3], 0.0f, 0.0f};
        Operands<0, 16> operands;
        operands.load(args, place);
        operands.apply(args, place, v, {});
        sums[e][0] = v[0], sums[e][1] = v[1], sums[e][2] = v[4], sums[e][3] = v[5];
      }
    }
  }

  // To the channel's plane, which is read no more: pair m is row m of it, of even results and of odd ones.
  TS_DEVICE void leave(int channel, const Sums& sums) const {
    const u32 to = plane(channel) + (lane() & 3) * 4;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int o = 0; o < 2; ++o)
        store_word(to + e * half_bytes(kTileRows) + pair_at(kTileRows, lane() / 4, o),
                   pack_pair<cfg::kTypeD>(sums[e][2 * o], sums[e][2 * o + 1]).words[0]);
    }
  }

  // A part of the results of all octets: a quad of lanes has a pixel at a time.
  TS_DEVICE void store(const Step& s) const {
    const TsConvStrides& strides = out_strides();
    const int octet = lane() & 3, all = static_cast<int>(args.batch) - s.image;
    constexpr int kOfWarp = 32 / cfg::kWarps;
    const int first = warp() * kOfWarp / 4;  // pair of rows
    const PairPlace own = place_of_pair(first);
    const i64 row_step = s.apart[1] * strides.spatial[1] * kElementBytes;
    const i64 column_step = s.apart[2] * strides.spatial[2] * kElementBytes;
    char* out = static_cast<char*>(args.out) +
                ((s.image + own.image) * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                 s.at[2] * strides.spatial[2] + first_channel + 8 * octet) * kElementBytes +
                own.row * row_step + lane() / 4 * column_step;
    // The second octet of columns is eight further on, or two images.
    const i64 octet_step = kSmall ? 2 * strides.batch * kElementBytes : 8 * column_step;
    const int rows = 8 * octet < channels() ? s.results_h - own.row : 0, columns = s.results_w - lane() / 4;
    const u32 from = plane(lane()) + pair_at(kTileRows, first, 0);
#pragma unroll
    for (int i = 0; i < kOfWarp / 2; ++i) {
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        u32 words[4];
        load_matrices_transposed(words, from + i % 2 * half_bytes(kTileRows) + i / 2 * kPlaneRowBytes +
                                            o * (kSmall ? 2 * image_bytes(kTileRows) : 16));
        exchange_octets(words);
        const bool there = kSmall ? own.image + 2 * o < all && columns > 0 : 8 * o < columns;
        if (i < rows && there) store_16_bytes(out + o * octet_step, words);
      }
      out += row_step;
    }
  }

  TS_DEVICE void work(const Step& s, bool finite) const {
    const int first = kChannelsOfWarp * warp(), last = first < channels() ? first + kChannelsOfWarp : first;
#pragma unroll 1
    for (int c = first; c < last; c += kTogether) {
      Sums sums[kTogether] = {};
      if (s.rows > 0) {
        u32 x[kTogether][kTwos][2][4], band[kTogether][cfg::kTaps][2];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) load(c + u, x[u], band[u]);
#pragma unroll
        for (int i = 0; i <= cfg::kTaps; ++i) {
#pragma unroll
          for (int u = 0; u < kTogether; ++u) multiply(x[u][i / 2][i % 2], band[u], i, sums[u]);
        }
      }
      if (s.rows > 0 && !finite) {
#pragma unroll
        for (int u = 0; u < kTogether; ++u) multiply_elements(s, c + u, sums[u]);
      }
      __syncwarp();
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        apply_epilogue(c + u, sums[u]);
        leave(c + u, sums[u]);
      }
    }
    __syncthreads();
    store(s);
  }

  TS_DEVICE void run(int part) const {
    const Run run_of_tiles = Run::of(args, part, cfg::kImages);
    int loaded = -1;  // the first tap of the bands
    const auto load_bands_of = [&](const Step& s) {
      if (s.rows == 0 || s.tap == loaded) return;
      loaded = s.tap;
      load_bands(s);
    };
    run_mapped(
        steps(), barrier(0), [&](int number) { return plan_step(args, shape, run_of_tiles, {}, number, cfg::kImages); },
        [&](const Step& s, int stage) {
          mbarrier_expect(barrier(stage), kTileBytes);
          bring(tile(stage), maps.read, barrier(stage), first_channel, s.image, s.slice, s.row, s.column);
        },
        [&] {
          __syncthreads();  // the first step is planned
          load_bands_of(steps()[0]);
        },
        [&](const Step& s, int stage, auto release) {
          __syncthreads();  // planes are read no more
          u32 nothing = 0;
          if (s.rows > 0) {
            nothing = turn_round<kTileRows, kPitch, true>(tile(stage), plane(0));
            load_bands_of(s);
          }
          const bool not_finite = __syncthreads_or((nothing & 0x7fff7fff) != 0);
          release();
          work(s, !not_finite);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_banded
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvTileMaps maps, const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const auto own = ts::conv::Share::of(static_cast<int>(args.groups), ts::conv::kChannels);
  const ts::conv::BandedData kernel{maps, args, ts::conv::Shape::whole(args), own.first_channel,
                                    ts::conv::aligned<ts::conv::kTileAlignment>(dynamic_shared)};
  kernel.run(own.run);
}
