// GEMM with integer weights for Hopper (sm_90a): warp-specialised, persistent, fed by the tensor copy engine. The
// configuration is that of gemm.cuh, with these differences:
//   kTypeA, kTypeB              bf16 or f16, and s8 or s4
//   kRowMajorA, kRowMajorB (bool)   a row-major, b column-major: both along k
//   kTileM                      rows of a: 16, 32, 64, 128, 192 or 256, what wgmma calls columns
//   kCopyRows                   kTileM
//   kTileN                      64 * kWarpgroups: each unpacks 64 columns of weights
//   kPingPong, kStreamK, kPromote, kTransposed (bool)   false: it is transposed in any case
//   kClusterM, kClusterN, kClusterK   1
//   kTmaBoxes                   TMA boxes of 64 elements of k in a stage; a row of weights has at most 128 bytes
//   kStoreTmaBox (bool)            with 64 rows or more
//   kStagedTensors (bool)       false
//   kScaling                    weights; kTypeScale: of their scales; kZeroPoints (bool): whether they have zero points
//
// Launch: those of gemm.cuh, and the tensor maps but for
//   a  {k, m, batch}, box {64, kTileM, 1}, swizzle of 128 bytes
//   b  bytes, {k * bits of a weight / 8, n, batch}, box {kRowBytesB, kTileN, 1}, swizzle of kRowBytesB bytes
// Scales and zero points may lie anywhere.
#pragma once

#include "weights_consumer.cuh"
#include "launch_roles.cuh"

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmMaps maps, const __grid_constant__ TsCudaGemmArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::gemm::run_roles<ts::gemm::WeightsConsumer>(ts::smem_address(dynamic_shared), maps, args);
}
