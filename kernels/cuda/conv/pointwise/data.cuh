// Convolution by filters of one tap on few channels, forward and backward data, of 16-bit tensors, for sm_80 and newer.
// Memory bounds such layers, so pixels go straight to the registers that tensor cores read, 16 bytes at a time, and
// results straight back; only the filters lie in shared memory. Warps do not wait for each other.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB            of what is read, bf16 or f16; kTypeD: of the result
//   kTileM                    pixels that a block multiplies at a time: sixteens of its warps
//   kDepth                    the most channels that are read, a multiple of 32
//   kRead                     8: channels that are read together
//   kStages                   tiles of a warp in registers: one is multiplied, others come
//   kWarps, kBlocksPerSm
//   kPairs (bool), true
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for
// The filter has one tap, which meets every pixel. Channels are neighbours, those of a group a multiple of 8 in both
// images, pixels are evenly apart, and everything begins at multiples of 16 bytes.
//
// Launch: kThreads threads; a grid of args.splits blocks for each group; dynamic shared memory of 64 * kDepth bytes for
// each 32 channels of the result; of backward data for an odd number of them.
#pragma once

#include "product.cuh"

namespace ts::conv {

static_assert(kOctets);

struct Pixels {
  Octets octets;

  // `from`: the thread's first octet; rows and channels that exist from there on; pixels are `step` bytes apart.
  TS_DEVICE void load(const char* from, int rows, int channels, i64 step) {
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
          load_chunk(octets[m][r][s], from + (16 * m + 8 * r) * step + 32 * s * kElementBytes,
                     16 * m + 8 * r < rows && 32 * s < channels);
      }
    }
  }
};

// Pixels of the group, and bytes from one to the next, in both images; pixels from a tile of the warp to its next; the
// thread's own pixel of the tile, and where it lies in both.
struct Walk {
  i64 pixels, step, result_step;
  int apart;
  i64 pixel;
  const char* from = nullptr;
  char* to = nullptr;

  // Pixels of the tile `ahead` that exist from the thread's own on, 0 or less where none does.
  TS_DEVICE int rows(int ahead) const {
    const i64 left = pixels - pixel - ahead * apart;
    return left > kRows ? kRows : static_cast<int>(left);
  }
};

struct Pointwise {
  Product product;

  // A tile's products, 32 columns at a time, and their results.
  TS_DEVICE void multiply(const Pixels& pixels, const Walk& walk) const {
    const int rows = walk.rows(0);
#pragma unroll 1
    for (int column = 0; column < product.columns(); column += 32) {
      Sums sums = {};
      product.multiply(pixels.octets, column, sums);
      const int own = column + 8 * (product.lane & 3);
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
        const OctetResults results(
            product.args, PointwisePlace{16 * m, own, rows, product.columns(), product.group, walk.pixel + 16 * m, product.args},
            sums[m]);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          results.store(r, walk.to + (16 * m + 8 * r) * walk.result_step + column * OctetResults::kBytes,
                        16 * m + 8 * r < rows ? product.columns() - own : 0, true);
      }
    }
  }

  // Tiles are dealt out to the warps of all of the group's blocks.
  TS_DEVICE void run(int block) const {
    const TsCudaConvArgs& args = product.args;
    const int lane = product.lane;
    const i64 group = product.group;
    const TsConvStrides &s = kForward ? args.x_strides : args.y_strides, &d = kForward ? args.y_strides : args.x_strides;
    Walk walk{all_pixels(args), pixel_step(args, s) * kElementBytes, pixel_step(args, d) * OctetResults::kBytes,
              args.splits * cfg::kWarps * kRows,
              static_cast<i64>(block * cfg::kWarps + static_cast<int>(threadIdx.x) / 32) * kRows + lane / 4};
    walk.from = static_cast<const char*>(kForward ? args.x : args.y) +
                (group * s.group + 8 * (lane & 3)) * kElementBytes + walk.pixel * walk.step;
    walk.to = static_cast<char*>(args.out) + (group * d.group + 8 * (lane & 3)) * OctetResults::kBytes +
              walk.pixel * walk.result_step;
    Pixels stages[cfg::kStages];
#pragma unroll
    for (int i = 0; i < cfg::kStages; ++i) load(stages[i], walk, i);
    product.prepare();
    while (take_turns<0>(stages, walk)) {
    }
  }

 private:
  TS_DEVICE void load(Pixels& pixels, const Walk& walk, int ahead) const {
    pixels.load(walk.from + ahead * walk.apart * walk.step, walk.rows(ahead),
                product.read_channels() - 8 * (product.lane & 3), walk.step);
  }

  // One tile of each stage, as long as there are any. A number of a stage that is known when this is compiled keeps
  // pixels in registers: beside an epilogue a loop over stages was not unrolled (NVRTC 13.0).
  template <int kStage>
  TS_DEVICE bool take_turns(Pixels (&stages)[cfg::kStages], Walk& walk) const {
    if constexpr (kStage < cfg::kStages) {
      if (walk.pixel - product.lane / 4 >= walk.pixels) return false;
      multiply(stages[kStage], walk);
      load(stages[kStage], walk, cfg::kStages);
      walk.pixel += walk.apart;
      walk.from += walk.apart * walk.step;
      walk.to += walk.apart * walk.result_step;
      return take_turns<kStage + 1>(stages, walk);
    }
    return true;
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_pointwise
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  ts::conv::run_group<ts::conv::Pointwise>(args);
}
