// Convolution for Hopper (sm_90a), forward: GEMM's warp-specialised kernel, fed by im2col copies. It multiplies places of
// the window by channels of the result, over taps and channels.
//
// Configuration, defined in namespace ts::cfg before this file is included: that of gemm/hopper/gemm.cuh for bf16, f16,
// e4m3 or s8, with a row-major a, a column-major b, kCopyRows = kTileM, no clusters, groups, stream-K, promotion
// or mm_plus_mm; and
//   kSpatial                  coordinates of the image, 1 to 3
//   kStepTaps                 1, 2 or 4 taps of a step, of kTileK / kStepTaps channels
//
// Launch: that of gemm/hopper/gemm.cuh, for the product that abi.h describes. Tensor maps:
//   a  im2col map of the image, channels and pixels of it: kTileM places by a tap's channels of a step, swizzle of as many
//   b  {channels of x, taps, channels of y, groups} of the filters, box {as many channels, 1, kTileN, 1}, the same swizzle
//   c, d  as GEMM's
// With more than one group, the channels of the image's groups are whole blocks of as many: what a block has beyond a group
// would be the next one's.
#pragma once

#define TS_REGIONS ts::cfg::kStepTaps

#include "../../gemm/hopper/consumer.cuh"
#include "forward_producer.cuh"

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmMaps maps, const __grid_constant__ TsCudaGemmArgs args,
             const __grid_constant__ TsCudaConvWindow window) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::gemm::run_roles<ts::gemm::Consumer, ts::conv::WindowProducer>(ts::smem_address(dynamic_shared), maps, args,
                                                                    window);
}
