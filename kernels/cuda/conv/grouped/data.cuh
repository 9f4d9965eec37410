// Convolution in groups of 4, 8 or 16 channels to as many, forward and backward data, of 16-bit tensors, for sm_80 and
// newer. Eight neighbouring channels, an octet, are 16 bytes: half of what a tensor core multiplies a pixel with. Nothing
// is gathered: tiles of pixels lie in shared memory, and a tap is another address in them.
//
// A warp has two octets of a tile's results, which it takes in sixteens. For each tap one load brings both octets of
// sixteen pixels. Groups of 16 are one product of both; groups of 8 two products of one octet. Groups of 4 share their
// octet, of which each group sees zeros in the other's place and has sums of its own: what one group holds, NaN too, is
// never multiplied with the other's weights.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB            of x (backward data: of y) and of w: bf16 or f16; kTypeD: of the result
//   kChannels                 of x and of y in a group: 4, 8 or 16
//   kRows, kColumns           results of a tile: 16 for each four warps, or a multiple
//   kPace                     as of conv/depthwise/data.cuh
//   kWarps, kStages, kBlocksPerSm; kWarps a multiple of 4
//   kColumnsFirst (bool), false
//   kPairs (bool), true; kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for
// Groups are neighbours in all tensors but w, and have together a multiple of 8 channels; pixels begin at multiples of 16
// bytes. Taps of w are equally far apart.
//
// Launch: args.lanes is 32: a block has 64 channels. kThreads threads; kStepBytes + kStages * args.stage_bytes +
// kTapBytes for each tap of dynamic shared memory; a grid of args.splits * ceil(channels / 64) blocks.
#pragma once

#include "../../common/launch.cuh"
#include "../../gemm/epilogue.cuh"
#include "octets.cuh"

namespace ts::conv {

constexpr int kSixteens = kResults / 16 / kTeams;     // of results, of a warp
constexpr int kSets = cfg::kChannels == 4 ? 2 : 1;    // of sums of an octet
constexpr int kWeightWords = cfg::kChannels == 8 ? 2 : 4;  // of a lane, for a tap
constexpr int kTapBytes = kPairsOfOctets * 32 * 4 * kWeightWords;

// d += a x b of 16 rows, 8 columns and 8 of k.
TS_DEVICE void multiply_add_octet(float (&d)[4], u32 a0, u32 a1, u32 b) {
  if constexpr (cfg::kTypeA == TS_GEMM_BF16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
  } else {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
  }
}

// A result's pixel, as gemm/epilogue.cuh asks for places: one row.
struct ResultPlace {
  int row, column;  // column: a channel of all groups
  int row_limit, column_limit;
  int image, at[3];

  TS_DEVICE i64 offset(const TsConvStrides& s) const {
    return image * s.batch + at[0] * s.spatial[0] + at[1] * s.spatial[1] + at[2] * s.spatial[2];
  }
  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int, int channel) const { return offset(o.strides) + channel; }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 1; }
};

struct GroupedData {
  using Sums = float[kSixteens][2][kSets][4];  // by octet

  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE const TsConvStrides& out_strides() const { return kForward ? args.y_strides : args.x_strides; }
  TS_DEVICE unsigned char* stage_at(int stage) const { return shared + kStepBytes + stage * args.stage_bytes; }
  TS_DEVICE unsigned char* weights() const { return stage_at(cfg::kStages); }
  TS_DEVICE int all_channels() const { return static_cast<int>(args.groups) * cfg::kChannels; }

  // The weight of channels `in` and `out` of the block; zero where these are of two groups.
  TS_DEVICE u32 weight_at(int in, int out, i64 tap) const {
    const TsConvStrides& s = args.w_strides;
    const int group = out / cfg::kChannels;
    if (in / cfg::kChannels != group || first_channel + out >= all_channels()) return 0;
    const int k = (kForward ? out : in) % cfg::kChannels, c = (kForward ? in : out) % cfg::kChannels;
    const i64 of_group = (first_channel / cfg::kChannels + group) * s.group;
    return load_bits<2>(static_cast<const char*>(args.w) + 2 * (of_group + k * s.batch + c * s.channel + tap));
  }

  // [tap][pair of octets][lane][word], as the tensor cores take them: a word has two neighbours along the channels that
  // are summed, of one channel of the result.
  TS_DEVICE void load_weights() const {
    const TsConvStrides& s = args.w_strides;
    const i64 step = args.filter[2] > 1 ? s.spatial[2] : args.filter[1] > 1 ? s.spatial[1] : s.spatial[0];
    const int words = static_cast<int>(args.filter[0] * args.filter[1] * args.filter[2]) * kTapBytes / 4;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) {
      const int word = i % kWeightWords, l = i / kWeightWords % 32, octets = i / kWeightWords / 32 % kPairsOfOctets;
      const int tap = i / (kTapBytes / 4);
      // Groups of 16: columns of octet word / 2, channels of octet word % 2. Of 8: of both octet `word`. Of 4: of both
      // octet word / 2, and of that the group word % 2.
      const int octet_out = cfg::kChannels == 8 ? word : word / 2;
      const int octet_in = cfg::kChannels == 16 ? word % 2 : octet_out;
      const int out = 16 * octets + 8 * octet_out + l / 4, in = 16 * octets + 8 * octet_in + 2 * (l % 4);
      const bool own = cfg::kChannels != 4 || l / 16 == word % 2;
      const u32 low = own ? weight_at(in, out, tap * step) : 0, high = own ? weight_at(in + 1, out, tap * step) : 0;
      reinterpret_cast<u32*>(weights())[i] = low | high << 16;
    }
  }

  TS_DEVICE void multiply(const Step& s, int stage, Sums& sums) const {
    const u32 tile = smem_address(stage_at(stage));
    const int matrix = lane() / 8, octet = 2 * pair() + matrix / 2;
    int pixel[kSixteens];  // of the lane's row
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      const int result = (team() * kSixteens + m) * 16 + matrix % 2 * 8 + lane() % 8;
      pixel[m] = result / cfg::kColumns * s.row_pace * s.columns + result % cfg::kColumns * cfg::kPace;
    }
    const unsigned char* const own = weights() + (pair() * 32 + lane()) * 4 * kWeightWords;
    const bool first_of_four = (lane() & 3) < 2;
    for (int h = 0; h < s.taps_h; ++h) {
      for (int w = 0; w < s.taps_w; ++w) {
        const unsigned char* const from = own + (s.tap + h * s.tap_h + w * s.tap_w) * kTapBytes;
        u32 b[kWeightWords];
        if constexpr (kWeightWords == 4) {
          const uint4 words = *reinterpret_cast<const uint4*>(from);
          b[0] = words.x, b[1] = words.y, b[2] = words.z, b[3] = words.w;
        } else {
          const uint2 words = *reinterpret_cast<const uint2*>(from);
          b[0] = words.x, b[1] = words.y;
        }
        const int tap = h * s.columns + w;
#pragma unroll
        for (int m = 0; m < kSixteens; ++m) {
          const int at = pixel[m] + tap;
          u32 a[4];
          load_matrices(a, octet_at(tile, at, octet));
          if constexpr (cfg::kChannels == 16) {
            multiply_add(sums[m][0][0], a[0], a[1], a[2], a[3], b[0], b[1]);
            multiply_add(sums[m][1][0], a[0], a[1], a[2], a[3], b[2], b[3]);
          } else {
#pragma unroll
            for (int o = 0; o < 2; ++o) {
              if constexpr (cfg::kChannels == 8) {
                multiply_add_octet(sums[m][o][0], a[2 * o], a[2 * o + 1], b[o]);
              } else {
                const u32 a0 = a[2 * o], a1 = a[2 * o + 1];
                multiply_add_octet(sums[m][o][0], first_of_four ? a0 : 0, first_of_four ? a1 : 0, b[2 * o]);
                multiply_add_octet(sums[m][o][1], first_of_four ? 0 : a0, first_of_four ? 0 : a1, b[2 * o + 1]);
              }
            }
          }
        }
      }
    }
  }

  TS_DEVICE void finish(const Step& s, const Sums& sums) const {
    const TsConvStrides& strides = out_strides();
    const int set = kSets == 2 ? (lane() & 3) / 2 : 0;
    const int channel = first_channel + 16 * pair() + 2 * (lane() & 3);
    const i64 first = s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                      s.at[2] * strides.spatial[2];
    const i64 row_step = s.apart[1] * strides.spatial[1], column_step = s.apart[2] * strides.spatial[2];
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int result = (team() * kSixteens + m) * 16 + 8 * r + lane() / 4;
        const int row = result / cfg::kColumns, column = result % cfg::kColumns;
        const bool there = row < s.results_h && column < s.results_w;
        float v[8] = {};
#pragma unroll
        for (int o = 0; o < 2; ++o) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float value = sums[m][o][0][2 * r + e];
            v[4 * o + e] = kSets == 2 && set == 1 ? sums[m][o][kSets - 1][2 * r + e] : value;
          }
        }
        if constexpr (cfg::kEpilogueLength > 0) {
          const ResultPlace place{0,
                                  channel,
                                  there ? 1 : 0,
                                  all_channels(),
                                  s.image,
                                  {s.at[0], s.at[1] + row * s.apart[1], s.at[2] + column * s.apart[2]}};
          Operands<0, 16> operands;
          operands.load(args, place);
          operands.apply(args, place, v, {});
        }
        store(static_cast<char*>(args.out), first + row * row_step + column * column_step, channel, there, v);
      }
    }
  }

  // Two neighbouring channels of either octet; of 16 bits, lanes exchange theirs for four of one.
  TS_DEVICE void store(char* out, i64 pixel, int channel, bool there, const float (&v)[8]) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    if constexpr (kBytes == 2) {
      u32 first = pack_pair<cfg::kTypeD>(v[0], v[1]).words[0], second = pack_pair<cfg::kTypeD>(v[4], v[5]).words[0];
      pair_exchange(first, second);
      const int at = channel - 2 * (lane() & 3) + 8 * (lane() & 1) + 4 * (lane() >> 1 & 1);
      if (there && at < all_channels()) store_8_bytes(out + (pixel + at) * kBytes, first, second);
    } else {
#pragma unroll
      for (int o = 0; o < 2; ++o)
        store_pair<cfg::kTypeD, true>(out + (pixel + channel + 8 * o) * kBytes,
                                      pack_pair<cfg::kTypeD>(v[4 * o], v[4 * o + 1]),
                                      there ? all_channels() - channel - 8 * o : 0);
    }
  }

  TS_DEVICE void run(int part) const {
    const TsConvStrides& strides = kForward ? args.x_strides : args.y_strides;
    const Pixels pixels{static_cast<const char*>(kForward ? args.x : args.y) + first_channel * kElementBytes, strides,
                        pixels_along(args, 1), pixels_along(args, 2), imin(all_channels() - first_channel, 2 * kLanes)};
    const Run run_of_tiles = Run::of(args, part);
    Sums sums;
    run_steps(
        reinterpret_cast<Step*>(shared),
        [&](int number) { return plan_step(args, shape, run_of_tiles, {}, number); },
        [&](const Step& s, int stage) {
          copy_tile<true>(smem_address(stage_at(stage)), shape, pixels, s.image, s.slice, s.row, s.column, s.row_hop,
                          s.column_hop, s.rows, s.columns, s.rows, s.columns_met);
        },
        [&] { load_weights(); },
        [&](const Step& s, int stage) {
          if (s.first) {
#pragma unroll
            for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
              for (int e = 0; e < 8 * kSets; ++e) sums[m][e / (4 * kSets)][e / 4 % kSets][e % 4] = 0.0f;
            }
          }
          if (s.rows > 0) multiply(s, stage, sums);
          if (s.last) finish(s, sums);
        });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_grouped
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  constexpr int kWidth = 2 * ts::conv::kLanes;
  const int channels = static_cast<int>(args.groups) * ts::cfg::kChannels, blocks = ts::ceil_div(channels, kWidth);
  const int part = static_cast<int>(blockIdx.x) / blocks, block = static_cast<int>(blockIdx.x) - part * blocks;
  const ts::conv::GroupedData kernel{args, ts::conv::whole_shape(args), block * kWidth, dynamic_shared};
  kernel.run(part);
}
