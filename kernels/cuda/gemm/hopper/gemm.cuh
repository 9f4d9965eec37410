// GEMM for Hopper (sm_90a): warp-specialised, persistent, fed by the tensor copy engine.
//
// Configuration, defined in namespace ts::cfg before this file is included (constexpr; int unless said otherwise; type,
// operation, scaling and grouping numbers are those of gemm/abi.h):
//   kTypeA, kTypeB, kTypeD      element types
//   kRowMajorA, kRowMajorB (bool)   8-bit and tf32 operands other than a row-major, b column-major are transposed in
//                               shared memory (transpose.cuh)
//   kTileM, kTileN              the tile; kTileN a multiple of 16 up to 256, kTileM at most 256; what is transposed a
//                               multiple of kTileK
//   kCopyRows                   rows of a that are copied at a time: kTileM / kClusterN, or, with groups of a row-major a
//                               and without clusters, a divisor of it, a multiple of 8; then rows that a group does not
//                               have are not copied
//   kWarpgroups                 consumer warpgroups, 1..3
//   kPingPong (bool)            two warpgroups with a tile each, taking turns; else they share a tile's rows. A
//                               warpgroup has 64 or 128 rows (64 * kRowBlocks)
//   kTransposed (bool)          the tile is computed as d^T = b^T x a^T: the warpgroups share its columns, 64 or 128 each, and
//                               kTileM is any multiple of 16 up to 256, or, from 80 on and not of int8, of 8. Without
//                               groups, block scales and kStagedTensors;
//                               kStoreTmaBox with more than 32 rows
//   kStages                     tiles of 128 bytes of k in flight
//   kClusterM, kClusterN        blocks that share tiles of b (neighbours along m) or of a (along n) by multicast
//   kClusterK                   blocks that share a tile by k and add their partials through each other's shared memory
//                               (exchange.cuh), 1 to 8. From 2 on kClusterM and kClusterN are 1, without groups,
//                               block scales, kPingPong, kSplitKAtomic and kStreamK; with kSplitK a cluster has one of
//                               the parts, and each block joins equal shares of them; kTileN is a multiple of 16 * kClusterK, or
//                               transposed with kStoreTmaBox kTileM of 8 * kClusterK, with more than 32 rows for each
//   kBlocksPerSm                blocks that share an SM
//   kProducerRegisters          of a thread that copies; those that multiply share the rest
//   kStoreTmaBox (bool)            d is written by the copy engine: it has a tensor map, and the columns of a row are a
//                               multiple of 16 bytes (the engine would write the rest of the last 16). Else element by
//                               element, at any alignment
//   kPairs (bool)               n is even and d's and the epilogue's pointers and strides are multiples of two elements
//   kStagedTensors (bool)       16-bit tensors of the epilogue are read 16 bytes at a time, the first by the copy engine:
//                               their pointers and strides are multiples of 16 bytes and n of 8; d is 16-bit, written
//                               by the copy engine, and not gated
//   kSplitK (bool)              k may be split (args.splits)
//   kSplitKAtomic (bool)            with kSplitK: partials are added as they are ready (partials.cuh)
//   kStreamK (bool)             the blocks share the tiles of the last rounds by steps of k (stream_k.cuh)
//   kMmPlusMm (bool)            the sums of A2 x B2 are added to those of A x B
//   kPromote (bool)             fp8: sums leave the tensor cores every 128 of k, for accuracy
//   kTmaBoxes                   1
//   kScaling, kGrouping, kTypeScale, kZeroPoints   no weights: see weights_gemm.cuh
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[]   operations and the types of what they read; the arrays have at
//                               least one element
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory (layout.cuh), clusters of kClusterM * kClusterN *
// kClusterK blocks, a grid of min(work items * kCluster, SMs * kBlocksPerSm) blocks, a multiple of kCluster; with
// kClusterK from 2 on work items * kClusterK blocks, each with one step of k or more. Work items:
//   splits * batch * ceil(m / (kTileM * kClusterM)) * ceil(n / (kTileN * kClusterN)); with groups, the sum over the
//   groups, or any larger number. The kernel may be launched to overlap the kernel before it (programmatic stream
//   serialisation).
// Tensor maps (zero fill; 128-byte swizzle but for d), dimensions innermost first, rows of contiguous groups
// all together:
//   a  row-major {k, m, batch}, box {kTileK, kCopyRows, 1}; column-major {m, k, batch}, box {kTileK, kTileK, 1}
//   b  column-major {k, n, batch}, box {kTileK, kTileN / kClusterM, 1}; row-major {n, k, batch}, box {kTileK, kTileK, 1}
//   d  {columns, m, batch}, box {kSlabRowBytes / size of an element, kBoxRows, 1}, swizzle of kSlabRowBytes bytes
//   c  with kStagedTensors, of the epilogue's first 16-bit tensor unless it is added times 0: {n, m, batch}, box
//      {kSlabRowBytes / 2, kTileM, 1}, swizzle of kSlabRowBytes bytes
//   a2, b2 (kMmPlusMm)  as a and b, with k2
//   edge_a, edge_b, edge_a2, edge_b2 (with args.edges)  as a to b2, boxes of m % kTileM % (kTileM / kClusterN) rows and
//      of n % kTileN % (kTileN / kClusterM) columns; of what lies along m or n of m % kTileK and n % kTileK elements,
//      rounded up to whole 16 bytes. Needed where these are not 0 and layout.cuh's kCutsA and kCutsB hold
// float32 operands have maps of type tfloat32, which rounds them. Pointers and strides of what has a map are multiples
// of 16 bytes.
#pragma once

#include "consumer.cuh"
#include "launch_roles.cuh"

#ifndef TS_ENTRY
#define TS_ENTRY ts_gemm
#endif

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmMaps maps, const __grid_constant__ TsCudaGemmArgs args) {
  extern __shared__ unsigned char dynamic_shared[];
  ts::gemm::run_roles<ts::gemm::Consumer>(ts::smem_address(dynamic_shared), maps, args);
}
