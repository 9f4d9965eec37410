// What kernels share that bring tiles of pixels by the copy engine (sm_90a).
#pragma once

#include "../attention/hopper/ptx.cuh"
#include "../common/launch.cuh"
#include "depthwise/stages.cuh"
#include "tile_maps.h"

namespace ts::conv {

// The first place of dynamic shared memory where a swizzled tile may lie.
template <int kAlignment>
TS_DEVICE unsigned char* aligned(unsigned char* dynamic_shared) {
  return dynamic_shared + (-smem_address(dynamic_shared) & (kAlignment - 1));
}

// Brings a tile through a map of the tensor: an image's slice from (row, column) on; what lies outside of it is zeros.
TS_DEVICE void bring(u32 to, const TsCudaTensorMap& map, u32 barrier, int channel, int image, int slice, int row, int column) {
  tma_load_5d(to, &map, barrier, channel, column, row, slice, image);
}

// Bytes behind the last stage: a barrier and a counter for each.
constexpr int kGateBytes = cfg::kStages * 16;

// One more of `count` comes: true for the last, with which the counter begins anew.
TS_DEVICE bool comes_last(u32 counter, int count) {
  u32 before;
  asm volatile("atom.acq_rel.cta.shared::cta.inc.u32 %0, [%1], %2;" : "=r"(before) : "r"(counter), "r"(count - 1) : "memory");
  return before == static_cast<u32>(count - 1);
}

// Calls copy(step, stage) of every step that has pixels, cfg::kStages steps ahead, and work(step, stage, release) once
// what it copies has arrived at the stage's barrier (that of stage 0 at `gates`, 8 bytes each; counters follow). Each warp
// calls release() when it reads the stage no more, and goes on: whichever is the last copies. start() while the first
// copies are under way. plan(number) is the step of that number; it reads nothing that the kernel before writes.
template <class Plan, class Copy, class Start, class Work>
TS_DEVICE void run_mapped(Step* slots, u32 gates, Plan plan, Copy copy, Start start, Work work) {
  constexpr int kHalf = kSlots / 2;
  static_assert(kSlots == 32 && cfg::kStages < kHalf / 2, "a warp plans");
  const int thread = static_cast<int>(threadIdx.x);
  const auto fill = [&](const Step& step, int stage) {
    if (!step.wanted) return;
    if (step.rows > 0)
      copy(step, stage);
    else
      mbarrier_arrive(gates + 8 * stage);
  };
  if (warp() == 0) {
    if (thread < cfg::kStages) {
      mbarrier_init(gates + 8 * thread, 1);
      asm volatile("st.shared.u32 [%0], 0;" ::"r"(gates + 8 * cfg::kStages + 4 * thread) : "memory");
    }
    fence_mbarrier_init();
    slots[thread] = plan(thread);
    __syncwarp();
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (thread == 0) {
    for (int s = 0; s < cfg::kStages; ++s) fill(slots[s], s);
  }
  start();
  __syncthreads();
  int stage = 0;
  u32 parity = 0;
  for (int number = 0;; ++number) {
    const Step& step = slots[number % kSlots];
    if (!step.wanted) break;
    mbarrier_wait(gates + 8 * stage, parity);
    work(step, stage, [&] {
      __syncwarp();
      if (lane() == 0 && comes_last(gates + 8 * cfg::kStages + 4 * stage, cfg::kWarps))
        fill(slots[(number + cfg::kStages) % kSlots], stage);
      // Of the half that no warp is at any more, nor soon.
      if (number > kHalf && number % kHalf == kHalf / 2 && thread < kHalf)
        slots[(number + kHalf / 2 + thread) % kSlots] = plan(number + kHalf / 2 + thread);
    });
    if (++stage == cfg::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

}  // namespace ts::conv
