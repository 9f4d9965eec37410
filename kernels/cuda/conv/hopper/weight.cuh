// Backward weight for Hopper (sm_90a): GEMM's warp-specialised kernel, fed by im2col copies. It multiplies channels of y
// by taps and channels of x, over pixels; a step is 64 pixels.
//
// Configuration, defined in namespace ts::cfg before this file is included: that of gemm/hopper/gemm.cuh for bf16 or
// f16, with a column-major a, a row-major b, tiles of whole 64 rows and columns, kStoreTmaBox, and stream-K without
// clusters or split k, and without groups, transposed tiles, promotion, an epilogue or mm_plus_mm; and
//   kSpatial                  coordinates of the image, 1 to 3
//   kStepTaps                 with split k also 2 or 4 taps, of 64 / kStepTaps channels, in 64 columns
//
// Launch: that of gemm/hopper/gemm.cuh, for the product that abi.h describes; with split k a second one, with args.join,
// that needs no clusters and no tensor maps. Tensor maps:
//   a  {channels of y in a group, pixels, groups}, box {64, 64, 1}
//   b  im2col map of x, channels and pixels of it: 64 places by a tap's channels in 64 columns, swizzle of as many
//   d  {channels of x, taps, channels of y, groups} of the filters, box {kSlabRowBytes / size of an element, 1,
//      kBoxRows, 1}, swizzle of kSlabRowBytes bytes
#pragma once

#include "weight_result.cuh"

#define TS_RESULT ts::conv::TapColumns
#define TS_WALK ts::conv::WeightTiles
#define TS_PART_GROUPS TS_CONV_PART_GROUPS
#define TS_LEAVES_PARTIALS 1
#define TS_COLUMN_ROW_BYTES (128 / ts::cfg::kStepTaps)

#include "../../gemm/hopper/consumer.cuh"
#include "weight_join.cuh"
#include "weight_producer.cuh"

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmMaps maps, const __grid_constant__ TsCudaConvWeightArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  if constexpr (ts::cfg::kSplitK) {
    if (args.join) {
      ts::let_next_kernel_start();
      ts::wait_for_previous_kernel();
      ts::conv::join_tiles(args, dynamic_shared);
      return;
    }
  }
  ts::gemm::run_roles<ts::gemm::Consumer, ts::conv::WeightProducer>(ts::smem_address(dynamic_shared), maps, args);
}
