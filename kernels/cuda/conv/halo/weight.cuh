// Backward weight of 3 x 3 filters by halo tiles, for Hopper (sm_90a).
//
// A step is a box of 8 x kRows pixels of y, and all pixels of x that its taps meet: a box with a border, the halo. A
// tap is another place in it, from which tensor cores read eight pixels of a row at a time: so each pixel comes to
// shared memory once for all taps, where im2col copies bring it once for each. With a stride of 2 the halo comes as four
// boxes, of rows and columns of either parity, and a tap finds its pixels in one of them.
//
// A tile has 64 channels of y by 9 taps of 64 channels of x. Warpgroup r multiplies the taps of the filter's row r. The
// boxes are cut into parts, whose sums go to memory as float32; a second launch adds the parts in their order.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kTypeA (= kTypeB)         of x and y: bf16 or f16; kTypeD: of w
//   kStride                   1 or 2, of both coordinates; dilations are 1
//   kRows                     of a box of pixels, an even number
//   kStages
//   and what else gemm's files ask for: row-major b, column-major a, no transposed tiles
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, any grid. Tensor maps, zero fill, 128-byte swizzle:
//   y  box {64, 8, kRows, 1}
//   x  stride 1: box {64, 10, kRows + 2, 1}; stride 2: {64, 9, kRows + 1, 1} of every other row and column
// Channels are neighbours, pixels of both begin at multiples of 16 bytes; c is a multiple of 4.
#pragma once

#include "../../attention/hopper/ptx.cuh"
#include "../../common/launch.cuh"
#include "../../gemm/hopper/wgmma.cuh"
#include "../slices.cuh"
#include "abi.h"

namespace ts::conv {

using namespace ts::gemm;

constexpr int kFilter = 3, kBlock = 64, kBoxColumns = 8;
constexpr int kConsumers = kFilter, kThreads = 128 * (kConsumers + 1);
constexpr int kHaloColumns = cfg::kStride == 1 ? kBoxColumns + 2 : kBoxColumns + 1;
constexpr int kHaloRows = cfg::kStride == 1 ? cfg::kRows + 2 : cfg::kRows + 1;
constexpr int kPlanes = cfg::kStride * cfg::kStride;
constexpr int kPitch = kHaloColumns * 128;  // bytes of a row of pixels
constexpr int kTwoRows = 2 * kPitch / 16;   // in units of 16 bytes
constexpr int kPlaneBytes = round_up(kHaloRows * kPitch, 1024);
constexpr int kBytesY = cfg::kRows * kBoxColumns * 128;
constexpr int kStageBytes = kBytesY + kPlanes * kPlaneBytes;
constexpr int kSumsOfThread = kFilter * kBlock / 2;
constexpr int kTileElements = kBlock * kFilter * kFilter * kBlock;
constexpr int kBarrierOffset = cfg::kStages * kStageBytes;
constexpr int kSharedBytes = kBarrierOffset + 16 * cfg::kStages + 1024;  // 1024 for aligning the base
static_assert(kSharedBytes <= 232448 && cfg::kRows % 2 == 0 && kBytesY % 1024 == 0);

// An operand whose 64 columns lie along rows of 128 bytes, one for each pixel: `pitch` bytes from eight pixels to the
// next eight, `leading` from 64 columns to the next.
TS_DEVICE u64 descriptor_of_pixels(u32 address, u32 leading, u32 pitch) {
  return 1ull << 62 | static_cast<u64>(pitch >> 4) << 32 | static_cast<u64>(leading >> 4) << 16 |
         (address & 0x3ffff) >> 4;
}

// A warpgroup's sums: channels of y by the taps of a row of the filter and channels of x. add() multiplies a stage, two
// rows of eight pixels at a time; `x` is where the row's first tap finds the first pixel.
template <int kStride>
struct RowSums {
  float all[kSumsOfThread];

  TS_DEVICE void pin_all() { pin(all); }
  TS_DEVICE float at(int i) const { return all[i]; }
  TS_DEVICE void add(u32 y_address, u32 x, int accumulate) {
    const u64 y = descriptor_of_pixels(uniform(y_address), 0, 1024);
    const u64 taps = descriptor_of_pixels(uniform(x), 128, kPitch);
#pragma unroll
    for (int s = 0; s < cfg::kRows / 2; ++s)
      Product<kFilter * kBlock>::multiply(all, y + s * 128, taps + s * kTwoRows, s != 0 ? 1 : accumulate);
  }
};
// The first and the last tap are neighbours in one plane, and the middle one is in the next.
template <>
struct RowSums<2> {
  float outer[kBlock], middle[kBlock / 2];

  TS_DEVICE void pin_all() {
    pin(outer);
    pin(middle);
  }
  TS_DEVICE float at(int i) const {
    return i < kBlock / 2 ? outer[i] : i < kBlock ? middle[i - kBlock / 2] : outer[i - kBlock / 2];
  }
  TS_DEVICE void add(u32 y_address, u32 x, int accumulate) {
    const u64 y = descriptor_of_pixels(uniform(y_address), 0, 1024);
    const u64 even = descriptor_of_pixels(uniform(x), 128, kPitch);
    const u64 odd = descriptor_of_pixels(uniform(x + kPlaneBytes), 128, kPitch);
#pragma unroll
    for (int s = 0; s < cfg::kRows / 2; ++s) {
      Product<2 * kBlock>::multiply(outer, y + s * 128, even + s * kTwoRows, s != 0 ? 1 : accumulate);
      Product<kBlock>::multiply(middle, y + s * 128, odd + s * kTwoRows, s != 0 ? 1 : accumulate);
    }
  }
};

// One part of one tile.
struct HaloItem {
  int group, k, c;  // first channels
  int box, boxes;
};

struct HaloWeight {
  const TsCudaConvHaloArgs& args;
  u32 base;

  TS_DEVICE u32 stage_y(u32 stage) const { return base + stage * kStageBytes; }
  TS_DEVICE u32 plane(u32 stage, int number) const { return stage_y(stage) + kBytesY + number * kPlaneBytes; }
  TS_DEVICE u32 full(u32 stage) const { return base + kBarrierOffset + 8 * stage; }
  TS_DEVICE u32 empty(u32 stage) const { return full(cfg::kStages + stage); }

  TS_DEVICE int blocks_c() const { return ceil_div(args.c, kBlock); }
  TS_DEVICE int blocks_k() const { return ceil_div(args.k, kBlock); }
  TS_DEVICE int tiles() const { return args.groups * blocks_k() * blocks_c(); }

  // Parts of a tile follow each other.
  TS_DEVICE bool find(int number, HaloItem& item) const {
    const int tile = number / args.splits, part = number - tile * args.splits;
    if (tile >= tiles()) return false;
    const int of_k = tile / blocks_c();
    item.c = (tile - of_k * blocks_c()) * kBlock;
    item.group = of_k / blocks_k();
    item.k = (of_k - item.group * blocks_k()) * kBlock;
    const int boxes = args.images * args.boxes_h * args.boxes_w;
    const int each = boxes / args.splits, more = boxes - each * args.splits;
    item.box = part * each + imin(part, more);
    item.boxes = each + (part < more);
    return true;
  }

  TS_DEVICE void produce(const TsCudaConvHaloMaps& maps) const {
    u32 stage = 0, phase = 0;
    HaloItem item;
    constexpr u32 kBytes = kBytesY + kPlanes * kHaloRows * kPitch;
    for (int number = blockIdx.x; find(number, item); number += gridDim.x) {
      const int along = item.box / args.boxes_w;
      int image = along / args.boxes_h, h = along - image * args.boxes_h, w = item.box - along * args.boxes_w;
      for (int b = 0; b < item.boxes; ++b) {
        mbarrier_wait(empty(stage), phase ^ 1);
        mbarrier_expect(full(stage), kBytes);
        tma_load_4d(stage_y(stage), &maps.y, full(stage), item.group * args.k + item.k, w * kBoxColumns,
                    h * cfg::kRows, image);
#pragma unroll
        for (int p = 0; p < kPlanes; ++p)
          tma_load_4d(plane(stage, p), &maps.x, full(stage), item.group * args.c + item.c,
                      w * kBoxColumns * cfg::kStride - args.pad_w + p % 2,
                      h * cfg::kRows * cfg::kStride - args.pad_h + p / 2, image);
        if (++stage == cfg::kStages) {
          stage = 0;
          phase ^= 1;
        }
        if (++w == args.boxes_w) {
          w = 0;
          if (++h == args.boxes_h) {
            h = 0;
            ++image;
          }
        }
      }
    }
  }

  TS_DEVICE void consume(int r) const {
    u32 stage = 0, phase = 0;
    HaloItem item;
    for (int number = blockIdx.x; find(number, item); number += gridDim.x) {
      RowSums<cfg::kStride> sums;
      u32 previous = 0;
      for (int b = 0; b < item.boxes; ++b) {
        mbarrier_wait(full(stage), phase);
        sums.pin_all();
        wgmma_fence();
        sums.add(stage_y(stage), plane(stage, r % cfg::kStride * cfg::kStride) + r / cfg::kStride * kPitch,
                 b != 0);
        wgmma_commit();
        sums.pin_all();
        if (b != 0) {
          wgmma_wait<1>();
          if (threadIdx.x % 128 == 0) mbarrier_arrive(empty(previous));
        }
        previous = stage;
        if (++stage == cfg::kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      wgmma_wait<0>();
      sums.pin_all();
      if (item.boxes > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(empty(previous));
      leave(number, r, item.boxes > 0, sums);
    }
  }

  // Of a tile's part: [row of the filter][sum / 4][thread][4].
  TS_DEVICE void leave(int number, int r, bool some, const RowSums<cfg::kStride>& sums) const {
    float* const to = args.partials + (static_cast<i64>(number) * kFilter + r) * (kSumsOfThread * 128) +
                      threadIdx.x % 128 * 4;
#pragma unroll
    for (int i = 0; i < kSumsOfThread; i += 4) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = some ? sums.at(i + e) : 0.0f;
      asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * 128), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                   "f"(v[3])
                   : "memory");
    }
  }

  // Of a thread's four sums: channels 2q and 2q + 1 of rows g and g + 8, as tensor cores have them.
  TS_DEVICE void join(unsigned char* shared) const {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    const auto all = [](int) { return true; };
    add_slices<kThreads>(args.partials, args.splits, tiles(), kTileElements, shared, all, [&](int tile, int quad,
                                                                                           const float(&total)[4]) {
      const int thread = quad % 128, index = quad / 128, r = index / (kSumsOfThread / 4);
      const int j = index % (kSumsOfThread / 4);  // of 8 columns
      const int tap = r * kFilter + j / 8, of_k = tile / blocks_c();
      const int c = (tile - of_k * blocks_c()) * kBlock + j % 8 * 8 + 2 * (thread & 3);
      const int group = of_k / blocks_k();
      const int k = (of_k - group * blocks_k()) * kBlock + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        char* const to = static_cast<char*>(args.out) + (group * args.group_stride + (k + 8 * half) * args.filter_stride +
                                                         tap * args.tap_stride + c) * kBytes;
        store_pair<cfg::kTypeD, true>(to, pack_pair<cfg::kTypeD>(total[2 * half], total[2 * half + 1]),
                                      k + 8 * half < args.k ? args.c - c : 0);
      }
    });
  }
};

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_halo
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, 1)
    TS_ENTRY(const __grid_constant__ TsCudaConvHaloMaps maps, const __grid_constant__ TsCudaConvHaloArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  const ts::conv::HaloWeight kernel{args, (ts::smem_address(dynamic_shared) + 1023u) & ~1023u};
  ts::let_next_kernel_start();
  if (args.join) {
    ts::wait_for_previous_kernel();
    kernel.join(dynamic_shared);
    return;
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < ts::cfg::kStages; ++s) {
      ts::mbarrier_init(kernel.full(s), 1);
      ts::mbarrier_init(kernel.empty(s), ts::conv::kConsumers);
    }
    ts::fence_mbarrier_init();
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(ts::uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    ts::shrink_registers<40>();
    if (threadIdx.x == 0) {
      ts::prefetch_tensor_map(&maps.y);
      ts::prefetch_tensor_map(&maps.x);
      ts::wait_for_previous_kernel();
      kernel.produce(maps);
    }
  } else {
    ts::grow_registers<152>();
    ts::wait_for_previous_kernel();
    kernel.consume(warpgroup - 1);
  }
}
