// What the kernels of halo tiles share that compute forward and backward data: a box of pixels of the result, with the
// pixels around it that its taps meet, and the box's way through the epilogue.
#pragma once

#include "../../attention/hopper/ptx.cuh"
#include "../../common/launch.cuh"
#include "../../gemm/epilogue.cuh"
#include "../../gemm/hopper/ptx.cuh"
#include "../../gemm/hopper/wgmma.cuh"
#include "data_abi.h"

namespace ts::conv {

using namespace ts::gemm;

constexpr bool kForward = cfg::kDirection == TS_CONV_FORWARD;
constexpr int kFilter = 3, kBlock = 64, kBoxColumns = 8;  // taps along a coordinate; channels
constexpr int kConsumers = 2, kThreads = 128 * (kConsumers + 1);
constexpr int kPixels = cfg::kRows * kBoxColumns;
constexpr int kPitch = (kBoxColumns + kFilter - 1) * 128;  // bytes of a row of pixels
constexpr int kHaloBytes = (cfg::kRows + kFilter - 1) * kPitch;
constexpr int kStageBytes = round_up(kHaloBytes, 1024);
constexpr int kTapBytes = kBlock * 128;  // of the filters of a block
static_assert(cfg::kRows % 2 == 0 && kPixels * 128 <= kStageBytes && cfg::kStages >= 3);

// An operand whose rows are pixels of 128 bytes, eight neighbours in a row of the halo and `kPitch` bytes further the
// next eight. The exchange of address bits looks at the address in shared memory, so that it may begin at any pixel.
TS_DEVICE u64 descriptor_of_halo(u32 address) {
  return 1ull << 62 | static_cast<u64>(kPitch >> 4) << 32 | (address & 0x3ffff) >> 4;
}

// Of an epilogue: a thread's rows are two channels of a group.
struct ChannelRows {
  int row, column;
  int row_limit, column_limit;
  int group;

  TS_DEVICE i64 entry_n(const TsCudaConvOperand&) const { return 0; }
  TS_DEVICE i64 entry(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand&, int, int) const { return 0; }
  TS_DEVICE i64 column_step(const TsCudaConvOperand&) const { return 0; }
};

struct HaloBoxes {
  using Sums = float[kPixels / 2];

  const TsCudaConvHaloDataMaps& maps;
  const TsCudaConvHaloDataArgs& args;
  u32 base;
  int group, channel;  // the first of the block's result

  // Of a thread's channels.
  TS_DEVICE ChannelRows rows() const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    return {channel + thread / 32 * 16 + thread % 32 / 4, 0, args.channels, kPixels, group};
  }

  // Turns the results round into the box's stage: 64 channels of a pixel are 128 bytes. Sixteen pixels go through the
  // epilogue at a time.
  TS_DEVICE void leave(u32 stage, const ChannelRows& place, Operands<0, 16>& operands, const Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int row = lane / 16 * 8 + lane % 8, chunk = 2 * warp + (lane >> 3 & 1);
    const u32 to = stage + row * 128 + ((chunk ^ (row & 7)) << 4);
#pragma unroll
    for (int i = 0; i < kPixels / 2; i += 8) {
      float v[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = sums[i + e];
      operands.apply(args, place, v, Staging{});
      const auto pair = [&](int e) { return pack_pair<cfg::kTypeD>(v[e], v[e + 1]).words[0]; };
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + i / 4 * 8 * 128),
                   "r"(pair(0)), "r"(pair(2)), "r"(pair(4)), "r"(pair(6))
                   : "memory");
    }
  }
};

// The end of a box in the consumer: the other warpgroup's turn, and results to memory through `stage`, whose pixels the
// products have read. One thread calls what_is_read() when no warp reads shared memory any more.
template <class Kernel, class Box, class WhatIsRead>
TS_DEVICE void finish_box(const Kernel& kernel, int warpgroup, const Box& box, int stage, const ChannelRows& place,
                          Operands<0, 16>& operands, HaloBoxes::Sums& sums, WhatIsRead what_is_read) {
  const int thread = static_cast<int>(threadIdx.x) % 128, barrier = 1 + warpgroup;
  const u32 tile = kernel.stage_at(stage);
  if (thread == 0) mbarrier_arrive(kernel.turn(kConsumers - 1 - warpgroup));
  wgmma_wait<0>();
  pin(sums);
  named_barrier_sync(barrier, 128);  // no warp reads the stage any more
  if (thread == 0) what_is_read();
  kernel.leave(tile, place, operands, sums);
  fence_proxy_async();
  named_barrier_sync(barrier, 128);
  if (thread == 0) {
    kernel.store(tile, box);
    store_commit();
    store_wait_read<0>();
    mbarrier_arrive(kernel.empty(stage));
  }
}

// A block's work: kernel.init() makes its barriers ready, one warpgroup produces and the others consume.
template <class Kernel>
TS_DEVICE void run_halo(const TsCudaConvHaloDataMaps& maps, const TsCudaConvHaloDataArgs& args) {
  extern __shared__ unsigned char dynamic_shared[];
  const int unit = static_cast<int>(blockIdx.x) % (args.groups * args.channel_blocks), group = unit / args.channel_blocks;
  const Kernel kernel{maps, args, (smem_address(dynamic_shared) + 1023u) & ~1023u, group,
                      (unit - group * args.channel_blocks) * kBlock};
  let_next_kernel_start();
  if (threadIdx.x == 0) {
    kernel.init();
    fence_mbarrier_init();
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(uniform(threadIdx.x / 128));
  if (warpgroup == 0) {
    shrink_registers<40>();
    if (threadIdx.x == 0) {
      prefetch_tensor_map(&kernel.maps.read);
      prefetch_tensor_map(&kernel.maps.filters);
      prefetch_tensor_map(&kernel.maps.result);
      wait_for_previous_kernel();
      kernel.produce();
    }
  } else {
    grow_registers<232>();
    wait_for_previous_kernel();
    kernel.consume(warpgroup - 1);
  }
}

}  // namespace ts::conv
