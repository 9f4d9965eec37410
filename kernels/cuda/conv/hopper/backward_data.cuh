// Backward data for Hopper (sm_90a): GEMM's warp-specialised kernel, fed by im2col copies. It multiplies pixels of y by
// channels of x, over the taps that meet a phase's pixels (conv/phases.cuh) and channels; all phases are one launch.
//
// Configuration, defined in namespace ts::cfg before this file is included: that of gemm/hopper/gemm.cuh for bf16 or
// f16, with a row-major a and b, kCopyRows = kTileM and kStoreTmaBox, without clusters, groups, split k, stream-K,
// promotion or mm_plus_mm; and
//   kSpatial                  coordinates of the image, 1 to 3
//   kStepTaps                 1, 2 or 4 taps of a step, of 64 / kStepTaps channels
//
// Launch: that of gemm/hopper/gemm.cuh, for the tiles of all phases. Tensor maps:
//   image   for each phase an im2col map of y, channels and pixels of it: kTileM places by a tap's channels of a step,
//           swizzle of as many
//   b       {channels of x, taps, channels of y, groups} of the filters, box {min(64, kTileN), 1, 64 / kStepTaps, 1},
//           swizzle of as many channels of x
//   c       as GEMM's; then there is one phase
//   result  with one phase GEMM's d; else for each phase an im2col map of the phase's pixels of x, without a window: kBoxRows
//           pixels by kSlabRowBytes / size of an element channels, swizzle of kSlabRowBytes bytes
// With more than one group, the channels of a group are whole blocks of what a step has of a tap, and, with more than one
// phase, those of x of what a box of the result has.
#pragma once

#include "phase_walk.cuh"

#define TS_WALK ts::conv::PhaseWalk<cfg::kTileM, cfg::kTileN>
#define TS_RESULT ts::conv::PhasePixels
#define TS_COLUMN_ROW_BYTES (ts::cfg::kTileN < 64 ? ts::cfg::kTileN * 2 : 128)
#define TS_REGIONS ts::cfg::kStepTaps

#include "../../gemm/hopper/consumer.cuh"
#include "phase_producer.cuh"

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvPhaseMaps maps, const __grid_constant__ TsCudaConvPhaseArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::gemm::run_roles<ts::gemm::Consumer, ts::conv::PhaseProducer>(ts::smem_address(dynamic_shared), maps, args);
}
