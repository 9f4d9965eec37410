// Convolution by filters of one tap on few channels, forward and backward data, of 16-bit tensors, for sm_80 and newer.
// Memory bounds such layers, so pixels go straight to the registers that tensor cores read, 16 bytes at a time, and
// results straight back; only the filters lie in shared memory. Warps do not wait for each other.
//
// The order in which a product adds up channels is free. Of each 32 a thread takes eight neighbours of its pixels and of
// its filters: the 16 bytes that it loads at once. Columns are dealt out so that it stores 16 bytes at once, too.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB            of what is read, bf16 or f16; kTypeD: of the result
//   kTileM                    pixels that a block multiplies at a time: sixteens of its warps
//   kDepth                    the most channels that are read, a multiple of 32
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

#include "../../attention/mma_sm80/copy.cuh"
#include "../../common/launch.cuh"
#include "../../gemm/mma.cuh"
#include "../octet_results.cuh"

namespace ts::conv {

constexpr int kThreads = 32 * cfg::kWarps;
constexpr int kSixteens = cfg::kTileM / 16 / cfg::kWarps;  // of pixels, of a warp
constexpr int kRows = 16 * kSixteens;
constexpr int kSteps = cfg::kDepth / 32;  // of 32 channels
constexpr int kElementBytes = 2, kOctetBytes = 16;
constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
static_assert(cfg::kTileM == kRows * cfg::kWarps && cfg::kDepth == 32 * kSteps && cfg::kPairs);
static_assert(bytes_of(cfg::kTypeA) == kElementBytes && cfg::kDirection != TS_CONV_BACKWARD_WEIGHT);

// Elements from one pixel of an image to the next, which are evenly apart.
TS_DEVICE i64 pixel_step(const TsCudaConvArgs& args, const TsConvStrides& s) {
  return args.x_size[2] > 1 ? s.spatial[2] : args.x_size[1] > 1 ? s.spatial[1] : args.x_size[0] > 1 ? s.spatial[0] : s.batch;
}

// A thread's first pair of an octet of results, as gemm/epilogue.cuh asks for it.
struct PointwisePlace {
  int row, column;
  int row_limit, column_limit;
  i64 group, pixel;
  const TsCudaConvArgs& args;

  TS_DEVICE i64 entry_n(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 entry(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int r, int at) const {
    return (pixel + 8 * r) * pixel_step(args, o.strides) + at;
  }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 1; }
};

// What a thread has of a warp's tile: an octet of each 32 channels, of two rows of each sixteen.
struct Pixels {
  u32 octets[kSixteens][2][kSteps][4];

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
  const TsCudaConvArgs& args;
  u32 filters;  // shared memory
  int lane;
  i64 group;

  TS_DEVICE int read_channels() const { return static_cast<int>(kForward ? args.c : args.k); }
  TS_DEVICE int columns() const { return static_cast<int>(kForward ? args.k : args.c); }
  TS_DEVICE int all_columns() const { return round_up(columns(), 32); }

  // Rows of backward data are an odd number of 64 bytes apart, so that those that are loaded together, of neighbours and
  // of channels 8, 16 and 24 on, whose octets change places, meet different banks.
  TS_DEVICE u32 row_bytes() const { return 64 * (all_columns() / 32 | 1); }

  // What a thread multiplies of 32 channels that are read, by eight columns of the products from `column` on.
  TS_DEVICE void load_filters(u32 (&b)[4], int step, int column) const {
    if constexpr (kForward) {
      load_shared(b, filters + ((step * all_columns() + column) * 4 + lane) * kOctetBytes);
    } else {
      const int channel = 8 * (lane >> 1 & 3) + 2 * (lane >> 3) + (lane & 1);
      const u32 row = filters + (32 * step + channel) * row_bytes() + (lane >> 1 & 3) * kOctetBytes;
      load_matrices_transposed(b, (row ^ (column / 8 & 3) * kOctetBytes) + column / 32 * 64);
    }
  }

  // Forward: [32 channels that are read][column][octet of these channels]. Backward data: [channel that is read][column],
  // as an octet of its columns is what lies together.
  TS_DEVICE void prepare() const {
    constexpr int kOctets = cfg::kDepth / 8;
    const TsConvStrides& w = args.w_strides;
    const char* const base = static_cast<const char*>(args.w) + group * w.group * kElementBytes;
    if constexpr (kForward) {
      for (int i = static_cast<int>(threadIdx.x); i < kOctets * all_columns(); i += kThreads) {
        const int column = i / kOctets, octet = i - column * kOctets;
        const bool there = column < columns() && 8 * octet < read_channels();
        copy_async(filters + ((octet / 4 * all_columns() + dealt_column(column)) * 4 + octet % 4) * kOctetBytes,
                   there ? base + (column * w.batch + 8 * octet) * kElementBytes : base, there);
      }
      copy_commit();
      copy_wait();
    } else {
      const int octets = all_columns() / 8;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < cfg::kDepth * octets; i += kThreads) {
        const int channel = i / octets, octet = i - channel * octets;
        u32 words[4];
        load_chunk(words, base + (channel * w.batch + 8 * octet) * kElementBytes,
                   channel < read_channels() && 8 * octet < columns());
        const u32 row = filters + channel * row_bytes() + octet / 4 * 64;
#pragma unroll
        for (int e = 0; e < 4; ++e)  // of each eight columns of the products a pair
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(row + (e ^ channel >> 3 & 3) * kOctetBytes + octet % 4 * 4),
                       "r"(words[e])
                       : "memory");
      }
    }
    __syncthreads();
  }

  // A tile's products, 32 columns at a time, and their results.
  TS_DEVICE void multiply(const Pixels& pixels, const Walk& walk) const {
    const int rows = walk.rows(0);
#pragma unroll 1
    for (int column = 0; column < columns(); column += 32) {
      float sums[kSixteens][2][2][4] = {};
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          u32 b[4];
          load_filters(b, s, column + 8 * p);
#pragma unroll
          for (int m = 0; m < kSixteens; ++m) {
            const auto& a = pixels.octets[m];
            multiply_add(sums[m][p / 2][p % 2], a[0][s][0], a[1][s][0], a[0][s][1], a[1][s][1], b[0], b[1]);
            multiply_add(sums[m][p / 2][p % 2], a[0][s][2], a[1][s][2], a[0][s][3], a[1][s][3], b[2], b[3]);
          }
        }
      }
      const int own = column + 8 * (lane & 3);
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
        const OctetResults results(
            args, PointwisePlace{16 * m, own, rows, columns(), group, walk.pixel + 16 * m, args}, sums[m]);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          results.store(r, walk.to + (16 * m + 8 * r) * walk.result_step + column * OctetResults::kBytes,
                        16 * m + 8 * r < rows ? columns() - own : 0, true);
      }
    }
  }

  // Tiles are dealt out to the warps of all of the group's blocks.
  TS_DEVICE void run(int block) const {
    const TsConvStrides &s = kForward ? args.x_strides : args.y_strides, &d = kForward ? args.y_strides : args.x_strides;
    Walk walk{args.batch * args.x_size[0] * args.x_size[1] * args.x_size[2], pixel_step(args, s) * kElementBytes,
              pixel_step(args, d) * OctetResults::kBytes, args.splits * cfg::kWarps * kRows,
              static_cast<i64>(block * cfg::kWarps + static_cast<int>(threadIdx.x) / 32) * kRows + lane / 4};
    walk.from = static_cast<const char*>(kForward ? args.x : args.y) +
                (group * s.group + 8 * (lane & 3)) * kElementBytes + walk.pixel * walk.step;
    walk.to = static_cast<char*>(args.out) + (group * d.group + 8 * (lane & 3)) * OctetResults::kBytes +
              walk.pixel * walk.result_step;
    Pixels stages[cfg::kStages];
#pragma unroll
    for (int i = 0; i < cfg::kStages; ++i) load(stages[i], walk, i);
    prepare();
    while (take_turns<0>(stages, walk)) {
    }
  }

 private:
  TS_DEVICE void load(Pixels& pixels, const Walk& walk, int ahead) const {
    pixels.load(walk.from + ahead * walk.apart * walk.step, walk.rows(ahead), read_channels() - 8 * (lane & 3), walk.step);
  }

  // One tile of each stage, as long as there are any. A number of a stage that is known when this is compiled keeps
  // pixels in registers: beside an epilogue a loop over stages was not unrolled (NVRTC 13.0).
  template <int kStage>
  TS_DEVICE bool take_turns(Pixels (&stages)[cfg::kStages], Walk& walk) const {
    if constexpr (kStage < cfg::kStages) {
      if (walk.pixel - lane / 4 >= walk.pixels) return false;
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
  extern __shared__ __align__(64) unsigned char dynamic_shared[];
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  const int block = static_cast<int>(blockIdx.x), group = block / args.splits;
  ts::conv::Pointwise{args, ts::smem_address(dynamic_shared), static_cast<int>(threadIdx.x) & 31, group}.run(
      block - group * args.splits);
}
