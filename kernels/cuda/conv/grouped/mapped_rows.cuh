// What the kernels share whose tiles of pixels the copy engine brings, for groups of 2, 4, 8, 16 or 32 channels to as many and
// 3 x 3 taps, of 16-bit tensors, for Hopper (sm_90a): strips of results, and their way to memory.
//
// A warp has two octets of a tile's results, which it takes in strips: eight columns of all rows. The sixteen rows of a
// product are row h of a strip and, further down, row h + kHalf.
#pragma once

#include "../mapped.cuh"
#include "results.cuh"

namespace ts::conv {

constexpr int kHalf = cfg::kRows / 2;                    // rows of results
constexpr int kPitch = (cfg::kColumns - 1) * cfg::kPace + cfg::kTaps;  // pixels of a row of a tile
constexpr int kTileRows = (cfg::kRows - 1) * cfg::kPace + cfg::kTaps;
constexpr int kRowsMet = (kHalf - 1) * cfg::kPace + cfg::kTaps;  // by half of a strip
constexpr int kFilterSide = 3;
constexpr int kTileAlignment = 1024;              // of the swizzle
constexpr int kTileBytes = kTileRows * kPitch * 128;
constexpr int kStageBytes = ceil_div(kTileBytes, kTileAlignment) * kTileAlignment;
constexpr int kWeightOffset = cfg::kStages * kStageBytes;
constexpr int kStepOffset = kWeightOffset + kFilterSide * kFilterSide * kTapBytes, kBarrierOffset = kStepOffset + kStepBytes;
constexpr int kSharedBytes = kBarrierOffset + kGateBytes + kTileAlignment;
// An epilogue asks for columns that are octets apart.
constexpr bool kPlain = cfg::kEpilogueLength == 0 && bytes_of(cfg::kTypeD) == 2;
constexpr bool kFours = cfg::kChannels >= 16 && kPlain;
constexpr int kStripsOfWarp = cfg::kColumns / 8 / kTeams;
static_assert(cfg::kRows % 2 == 0 && cfg::kColumns % (8 * kTeams) == 0);

struct MappedRows {
  // Of rows that are results of one phase, by octet.
  using Sums = float[kHalf][2][4];

  const TsCudaConvTileMaps& maps;
  const TsCudaConvArgs& args;
  Shape shape;
  int first_channel;  // of the block
  unsigned char* shared;

  TS_DEVICE const TsConvStrides& out_strides() const { return kForward ? args.y_strides : args.x_strides; }
  TS_DEVICE u32 stage_at(int stage) const { return smem_address(shared) + stage * kStageBytes; }
  TS_DEVICE u32 barrier(int stage) const { return smem_address(shared) + kBarrierOffset + 8 * stage; }

  // The words of a column of taps.
  TS_DEVICE void load_column(const Step& s, int column, u32 (&w)[kFilterSide][kWeightWords], int sixteen = 0) const {
#pragma unroll
    for (int r = 0; r < kFilterSide; ++r)
      GroupWeights::words_of(shared + kWeightOffset, s.tap + r * s.tap_h + column * s.tap_w, w[r], sixteen);
  }

  // The pixel of a lane's row of a load, of the first row of results, at the first tap.
  static TS_DEVICE int first_pixel(int strip) {
    return cfg::kPace * (lane() / 8 % 2 * kHalf * kPitch + 8 * strip + lane() % 8);
  }
  static TS_DEVICE int own_octet(int sixteen = 0) {
    return 2 * (pair() / kDepth * kDepth + sixteen) + lane() / 16;
  }

  // Rows h and h + kHalf of a strip.
  TS_DEVICE void finish_row(const Step& s, int strip, int h, const float (&sums)[2][4]) const {
    const TsConvStrides& strides = out_strides();
    const int column = 8 * strip + lane() / 4, rows = column < s.results_w ? s.results_h - h : 0;
    const GroupResults results{args, first_channel};
    float v[2][8];  // of either row: two neighbouring channels of either octet, as GEMM's epilogue has a row
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) v[r][e / 2 * 4 + e % 2] = sums[e / 2][2 * r + e % 2];
      results.apply_epilogue(s, h + r * kHalf, column, rows > r * kHalf, v[r]);
    }
    const i64 row_step = s.apart[1] * strides.spatial[1];
    const i64 first = s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                      (s.at[2] + column * s.apart[2]) * strides.spatial[2];
    if constexpr (kFours) {
      results.store_four(first + h * row_step, rows > 0, v[0]);
      results.store_four(first + (h + kHalf) * row_step, rows > kHalf, v[1]);
    } else {
      results.store_two(first + h * row_step, kHalf * row_step, rows > 0, rows > kHalf, v);
    }
  }

  // All rows of a strip as they are.
  TS_DEVICE void store_strip(const Step& s, int strip, const Sums& sums) const {
    const TsConvStrides& strides = out_strides();
    const int column = 8 * strip + lane() / 4, channels = static_cast<int>(args.groups) * cfg::kChannels;
    const int at = first_channel + 16 * pair() + (kFours ? 4 * (lane() & 3) : 8 * (lane() & 1));
    const i64 row_step = s.apart[1] * strides.spatial[1] * 2;
    int rows = column < s.results_w && at < channels ? s.results_h : 0;
    char* out = static_cast<char*>(args.out) +
                2 * (s.image * strides.batch + s.at[0] * strides.spatial[0] + s.at[1] * strides.spatial[1] +
                     (s.at[2] + column * s.apart[2]) * strides.spatial[2] + at);
    char* second = out + kHalf * row_step;
    if (!kFours && (lane() & 2)) out = second, rows -= kHalf;
#pragma unroll
    for (int h = 0; h < kHalf; ++h) {
      const float(&v)[2][4] = sums[h];
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack_pair<cfg::kTypeD>(v[i % 2][i / 2 * 2], v[i % 2][i / 2 * 2 + 1]).words[0];
      if constexpr (kFours) {  // a lane has four neighbouring channels of two rows
        store_8_bytes_if(h < rows, out, words[0], words[1]);
        store_8_bytes_if(h + kHalf < rows, second, words[2], words[3]);
        second += row_step;
      } else {  // lanes exchange theirs for an octet of one of the two
        exchange_octets(words);
        store_16_bytes_if(h < rows, out, words);
      }
      out += row_step;
    }
  }

  // The same, behind the epilogue where there is one.
  TS_DEVICE void finish_strip(const Step& s, int strip, const Sums& sums) const {
    if constexpr (kPlain) {
      store_strip(s, strip, sums);
    } else {
#pragma unroll
      for (int h = 0; h < kHalf; ++h) finish_row(s, strip, h, sums[h]);
    }
  }
};

// The entry. Of a kernel: `StripSums`, what a warp adds up for a strip; plan(run, number), the run's tile of a number;
// multiply(step, tile, strip, sums); finite(sums), and where they are not, of groups that share an octet,
// work_apart(step, tile, strip), which also finishes; finish(step, strip, sums).
template <class Kernel>
TS_DEVICE void run_strips(const TsCudaConvTileMaps& maps, const TsCudaConvArgs& args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const auto own = Share::of(static_cast<int>(args.groups) * cfg::kChannels, 2 * kLanes);
  const Kernel kernel{maps, args, Shape::whole(args), own.first_channel, aligned<kTileAlignment>(dynamic_shared)};
  const Run run_of_tiles = Run::of(args, own.run);
  run_mapped(
      reinterpret_cast<Step*>(kernel.shared + kStepOffset), smem_address(kernel.shared) + kBarrierOffset,
      [&](int number) { return kernel.plan(run_of_tiles, number); },
      [&](const Step& s, int stage) {
        mbarrier_expect(kernel.barrier(stage), kTileBytes);
        bring(kernel.stage_at(stage), maps.read, kernel.barrier(stage), kernel.first_channel, s.image, s.slice, s.row,
              s.column);
      },
      [&] {  // the first warp plans
        GroupWeights(args, kernel.first_channel).template load<kFours, true>(kernel.shared + kWeightOffset);
      },
      [&](const Step& s, int stage, auto release) {
#pragma unroll 1
        for (int own = 0; own < kStripsOfWarp; ++own) {
          const int strip = own * kTeams + team();
          typename Kernel::StripSums sums = {};
          bool finished = false;
          if (s.rows > 0) {
            kernel.multiply(s, kernel.stage_at(stage), strip, sums);
            if (kGroupsOfOctet > 1 && __any_sync(0xffffffffu, !Kernel::finite(sums))) {
              kernel.work_apart(s, kernel.stage_at(stage), strip);
              finished = true;
            }
          }
          if (own + 1 == kStripsOfWarp) release();
          if (finished) continue;
          kernel.finish(s, strip, sums);
        }
      });
}

}  // namespace ts::conv
