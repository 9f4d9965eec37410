// What a CUDA GEMM kernel is called with. The meaning is that of contract/gemm.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg (the tile configuration and the traits)
// followed by one include: "gemm/hopper/gemm.cuh", "gemm/hopper/weights_gemm.cuh", "gemm/mma_sm80/gemm.cuh",
// "gemm/mma_sm80/list.cuh" or, for at most 16 rows, "gemm/hopper/skinny.cuh" and "gemm/skinny/gemm.cuh". It defines one
// entry, extern "C" __global__, named by the macro TS_ENTRY (ts_gemm when it is not defined). How the entry is launched
// (threads, shared memory, grid, tensor maps) stands at the top of those files. The kernels are freestanding and
// compile with NVRTC.
//
// m, n, k and batch are at least 1: the caller does empty GEMMs.
#pragma once

#include "../../contract/gemm.h"
#include "../../gpu/gemm/words.h"
#include "../common/tensor_map.h"

/* How fp8 and integer operands are scaled: the values of cfg::kScaling. */
enum {
  TS_GEMM_SCALE_TENSOR = 0, /* scale_a and scale_b point to one float32 each, or are null: D is scaled by both */
  TS_GEMM_SCALE_BLOCK = 1,  /* 8-bit floats in blocks of 128 of k. Sums are kept in float32 registers, to which each
                               block of k is added scaled */
  /* Integer weights (S8 or S4), multiplied in a's type. The scales are of type cfg::kTypeScale; zero points, with
   * cfg::kZeroPoints, are at most 119 beside S4; blocks have 32 elements of k or more. */
  TS_GEMM_SCALE_WEIGHTS = 2
};

/* Hopper's cooperative tiles add more parts of k than this in two rounds, in so many groups, where a thread has at most
 * TS_GEMM_GROUPED_SUMS sums: with 176 they spill (256 x 176, 36 bytes, ptxas 13.0). Of all such tiles each counter is
 * 1 + TS_GEMM_PART_GROUPS of them, but with cfg::kSplitKAtomic. */
#define TS_GEMM_GROUPED_SUMS 128
#define TS_GEMM_PART_GROUPS 8

/* Which rows of a go with which b: the values of cfg::kGrouping. */
enum {
  TS_GEMM_UNGROUPED = 0,
  /* The rows of all groups follow one another in a and d, m of them at most. Group g begins where group g - 1 ends, at
   * any row, ends before row group_ends[g], and multiplies member g of b. group_ends never falls. Epilogue tensors and
   * vectors over m run with the rows of d; vectors over n have their batch stride from group to group. */
  TS_GEMM_CONTIGUOUS = 1,
  /* Group g is member g of the batch, of which the first group_ends[g] rows (at most m) are computed. In either case the
   * rest of d is left alone. */
  TS_GEMM_MASKED = 2
};

// What an epilogue operation reads or writes. Strides in elements; element (i, j) of member z of the batch is at data +
// z * batch_stride + i * row_stride + j, element i of a vector at data + z * batch_stride + i.
struct TsCudaGemmOperand {
  void* data;
  long long row_stride, batch_stride;
  float value, limit;
};

// Passed by value as a __grid_constant__ parameter. The fields of TsGemmCall stand here one by one, x_stride for a
// matrix's `leading` and x_batch_stride for its `batch`: ptxas allots registers by the layout of parameters, and with
// TsGemmCall as a base the 128 x 192 kernel in clusters of 2 spills 4 bytes (NVRTC 13.0, sm_90a).
struct TsCudaGemmArgs {
  const void* a;
  const void* b;
  void* d;
  const float* scale_a;
  const void* scale_b;  // float32, of weights also a's type
  const signed char* zero_b;
  const int* group_ends;
  // With split_k and stream_k only. partials: float32 (int32 for 8-bit integers), `splits` times the elements of all
  // tiles, whole ones; stream_k: two tiles for each block. counters: 32-bit, one for each tile (Hopper's cooperative
  // tiles: for each of a tile's warpgroups; stream_k: for as many tiles as two a block), zero before the first launch
  // and left zero by every launch. Both per stream. With cfg::kSplitKAtomic the partials are the elements of all tiles
  // once, and zero as the counters are.
  float* partials;
  unsigned int* counters;
  long long a_stride, b_stride, d_stride;
  long long a_batch_stride, b_batch_stride, d_batch_stride;
  long long scale_a_row_stride, scale_a_block_stride, scale_a_batch_stride;
  long long scale_b_row_stride, scale_b_block_stride, scale_b_batch_stride;
  long long zero_b_row_stride, zero_b_block_stride, zero_b_batch_stride;
  TsCudaGemmOperand epilogue[TS_GEMM_EPILOGUE_MAX];
  float alpha;
  int m, n, k, batch, groups;
  // Tile order: tiles are walked in bands of `band` tile rows (or tile columns when band_columns is set), along the
  // band, across it first.
  int band, band_columns;
  // wgmma templates only. b_first: in each step, the copy of b is started before the copy of a (not beside weights).
  // late_launch_dependents: the next kernel of the stream, where it may overlap this one, starts when the blocks are
  // done instead of when they begin.
  int b_first, late_launch_dependents;
  // wgmma templates only: whether the maps edge_a and edge_b (and edge_a2 and edge_b2) are there.
  int edges;
  // Parts into which k is split, each at least one step of the tile; 1: not split.
  int splits;
  int scale_shift;
  // cfg::kMmPlusMm only.
  int k2;
  const void* a2;
  const void* b2;
  long long a2_stride, b2_stride, a2_batch_stride, b2_batch_stride;
};

// Lists: GEMMs of their own sizes in one launch (gemm/mma_sm80/list.cuh). The entries travel with the launch as a
// parameter, so that no memory holds the table and a captured graph keeps its own: an entry is a TsCudaGemmListEntry
// and, for each operation of the epilogue, a TsCudaGemmListOperand. Every driver passes at least 4096 bytes of
// parameters to a kernel; all parameters of a list stay within them.
#define TS_GEMM_LIST_BYTES 3456
struct TsCudaGemmListEntry {
  const void* a;
  const void* b;
  void* d;
  long long a_stride, b_stride, d_stride;  // `leading` of a, b and d
  int m, n, k;                             // k may be 0
  int first_tile;                          // how many tiles the entries before it have
  float alpha;
  int reserved;
};
struct TsCudaGemmListOperand {
  void* data;
  long long row_stride;
  float value, limit;
};
struct TsCudaGemmList {
  unsigned char entries[TS_GEMM_LIST_BYTES];
  int gemms, tiles;
};

// The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter.
struct TsCudaGemmMaps {
  TsCudaTensorMap a, b, d, a2, b2, c;  // a2 and b2: cfg::kMmPlusMm only; c: with cfg::kStagedTensors
  // With args.edges: maps of a, b, a2 and b2 for the last tiles of rows and columns, where those are cut. Their TMA
  // boxes have as many rows of a, or columns of b, as there are; of what a cluster shares, as the share has that is cut.
  TsCudaTensorMap edge_a, edge_b, edge_a2, edge_b2;
};
