/* The contract between Tilesmith and a compiled CUDA GEMM kernel.
 *
 * The host includes this header; a generated source includes it too, so both sides agree by construction. It is plain C
 * with fixed-width types: the kernels are freestanding and compile with NVRTC.
 *
 * A generated source is a table of constexpr values in namespace ts::cfg (the tile configuration and the traits)
 * followed by one include: "gemm/hopper/gemm.cuh", "gemm/portable/gemm.cuh" or, for at most 16 rows,
 * "gemm/hopper/skinny.cuh" and "gemm/skinny/gemm.cuh". It defines one entry, extern "C" __global__, named by the macro
 * TS_ENTRY (ts_gemm when it is not defined). The launch facts (threads, shared memory, grid, tensor maps) stand at the
 * top of those files.
 *
 *   d = epilogue(alpha * scale_a * scale_b * a x b)        a: m x k, b: k x n, d: m x n, each `batch` times
 *
 * With cfg::kMmPlusMm the sums of a second product, a2 x b2 over k2, go on from those of a x b; a2 and b2 have the types
 * and orders of a and b.
 *
 * Every operand is row-major (its columns contiguous) or column-major (its rows contiguous); a and b are either, d is
 * row-major. Sums are kept in float32, in int32 for 8-bit integers. The epilogue is a list of operations fixed at
 * compile time and done in float32 in the order of the list; beta * C is the operation TS_GEMM_ADD with `value` = beta.
 *
 * m, n, k and batch are at least 1: an empty product is the caller's own business.
 */
#ifndef TILESMITH_KERNELS_CUDA_GEMM_ABI_H
#define TILESMITH_KERNELS_CUDA_GEMM_ABI_H

#include "../attention/abi.h"

/* Element types, the values of cfg::kTypeA, kTypeB, kTypeD and cfg::kEpilogueTypes. Products of float32 operands are
 * taken in tf32. */
enum {
  TS_GEMM_F32 = 0,
  TS_GEMM_BF16 = 1,
  TS_GEMM_F16 = 2,
  TS_GEMM_E4M3 = 3,
  TS_GEMM_E5M2 = 4,
  TS_GEMM_S8 = 5,
  TS_GEMM_S32 = 6,
  TS_GEMM_S4 = 7 /* b alone, as weights: two in a byte, the one of lower k in its low half; strides count elements */
};

/* Operations of the epilogue, the values of cfg::kEpilogue. `v` is the value, (i, j) its row and column in a x b. */
enum {
  TS_GEMM_NONE = 0,
  TS_GEMM_ADD = 1,       /* v += value * tensor[i][j]; a value of 0 leaves the tensor unread. Of int32 results, whose
                            tensor is int32 and value a whole number: modulo 2^32 */
  TS_GEMM_MULTIPLY = 2,  /* v *= tensor[i][j] */
  TS_GEMM_BIAS_N = 3,    /* v += vector[j] */
  TS_GEMM_BIAS_M = 4,    /* v += vector[i] */
  TS_GEMM_SCALE_N = 5,   /* v *= vector[j] */
  TS_GEMM_SCALE_M = 6,   /* v *= vector[i] */
  TS_GEMM_RELU = 7,      /* NaN stays NaN */
  TS_GEMM_GELU = 8,      /* v * (1 + erf(v / sqrt(2))) / 2 */
  TS_GEMM_GELU_TANH = 9, /* v * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3))) / 2 */
  TS_GEMM_SILU = 10,     /* v * sigmoid(v) */
  TS_GEMM_SIGMOID = 11,
  TS_GEMM_TANH = 12,
  TS_GEMM_CLAMP = 13, /* to value .. limit; NaN stays NaN */
  /* Gates join columns 2j and 2j + 1 into column j of d, which then has n / 2 columns (n even): act(v[2j]) * v[2j + 1].
   * There is one gate at most. What follows it sees the n / 2 columns, its tensors and vectors too. */
  TS_GEMM_GATE_SILU = 14,
  TS_GEMM_GATE_GELU = 15,
  TS_GEMM_GATE_GELU_TANH = 16,
  TS_GEMM_GATE_SIGMOID = 17,
  TS_GEMM_GATE_RELU = 18,
  TS_GEMM_AMAX = 19 /* *data (float32, at least 0 beforehand) becomes the larger of itself and every |v|; last */
};
#define TS_GEMM_EPILOGUE_MAX 8

/* How fp8 and integer operands are scaled: the values of cfg::kScaling. */
enum {
  TS_GEMM_SCALE_TENSOR = 0, /* scale_a and scale_b point to one float32 each, or are null */
  /* K in blocks of 128: scale_a[i * row stride + block * block stride] for row i of a, scale_b[j / 128 * row stride +
   * block * block stride] for column j of b. Sums are kept in float32 registers and take up each block of K scaled. */
  TS_GEMM_SCALE_BLOCK = 1,
  /* b holds integers (S8 or S4) beside an a of 16 bits, whose type is that of the products. Element (p, j) stands for
   * b[p][j] * scale_b[j * row stride + (p >> scale_shift) * block stride], taken in float32 and rounded to a's type,
   * with cfg::kZeroPoints for (b[p][j] - zero_b[..]) * scale_b[..]; zero_b, at most 119 beside S4, has strides of its
   * own. The scales are of type cfg::kTypeScale, float32 or a's; blocks have 32 of K or more. Both lie along K. */
  TS_GEMM_SCALE_WEIGHTS = 2
};

/* Which rows of a go with which b: the values of cfg::kGrouping. */
enum {
  TS_GEMM_UNGROUPED = 0,
  /* The rows of all groups behind one another in a and d, m of them at most; group g ends before row group_ends[g],
   * which rises, begins where the one before it ends, at any row, and multiplies b at g * b_batch_stride. Epilogue
   * tensors and vectors over m run with the rows of d; vectors over n have their batch stride from group to group. */
  TS_GEMM_CONTIGUOUS = 1,
  /* Group g is batch entry g, of which the first group_ends[g] rows (at most m) are computed. In either case the rest of
   * d is left alone. */
  TS_GEMM_MASKED = 2
};

/* What an epilogue operation reads or writes. Strides in elements; element (i, j) of batch entry z is at data + z *
 * batch_stride + i * row_stride + j, element i of a vector at data + z * batch_stride + i. */
typedef struct TsCudaGemmOperand {
  void* data;
  long long row_stride, batch_stride;
  float value, limit;
} TsCudaGemmOperand;

/* Passed by value as a __grid_constant__ parameter. */
typedef struct TsCudaGemmArgs {
  const void* a;
  const void* b;
  void* d;
  const float* scale_a;
  const void* scale_b; /* float32, of weights also a's type */
  const signed char* zero_b;
  const int* group_ends;
  /* Split products and stream-K only. partials: float32 (int32 for 8-bit integers), splits times the elements of all
   * tiles, whole ones; stream-K: two tiles for each block. counters: 32-bit, one for each tile (Hopper's cooperative
   * tiles: for each of a tile's warpgroups; stream-K: for as many tiles as two a block), zero before the first launch
   * and left zero by every launch. Both per stream. With cfg::kAddParts the partials are the elements of all tiles
   * once, and zero as the counters are. */
  float* partials;
  unsigned int* counters;
  /* From one row (row-major) or column (column-major) to the next, and from one batch entry to the next; in elements.
   */
  long long a_stride, b_stride, d_stride;
  long long a_batch_stride, b_batch_stride, d_batch_stride;
  long long scale_a_row_stride, scale_a_block_stride, scale_a_batch_stride;
  long long scale_b_row_stride, scale_b_block_stride, scale_b_batch_stride;
  long long zero_b_row_stride, zero_b_block_stride, zero_b_batch_stride;
  TsCudaGemmOperand epilogue[TS_GEMM_EPILOGUE_MAX];
  float alpha;
  int m, n, k, batch, groups;
  /* Tile order: tiles are walked in bands of `band` tile rows (or tile columns when band_columns is set), along the
   * band, across it first. */
  int band, band_columns;
  /* Wgmma templates only. b_first: of a step, b is asked for before a (not beside weights). late_launch_dependents: the kernel
   * behind this one, where it may overlap it, starts when the blocks are done instead of when they begin. */
  int b_first, late_launch_dependents;
  /* Wgmma templates only: whether the maps edge_a and edge_b (and those of the second product) are there. */
  int edges;
  /* Parts into which k is split, each at least one step of the tile; 1: not split. */
  int splits;
  int scale_shift; /* of weights: a block has 1 << scale_shift of K; 31: all of it */
  /* cfg::kMmPlusMm only. */
  int k2;
  const void* a2;
  const void* b2;
  long long a2_stride, b2_stride, a2_batch_stride, b2_batch_stride;
} TsCudaGemmArgs;

/* Lists: products of their own sizes in one launch (gemm/portable/list.cuh). The entries travel with the launch, so that
 * a table is nobody's memory and a captured graph keeps its own: an entry is a TsCudaGemmProduct and, for each operation
 * of the epilogue, a TsCudaGemmProductOperand. What every driver passes to a kernel is 4096 bytes in all. */
#define TS_GEMM_LIST_BYTES 3456
typedef struct TsCudaGemmProduct {
  const void* a;
  const void* b;
  void* d;
  long long a_stride, b_stride, d_stride; /* as in TsCudaGemmArgs */
  int m, n, k;                            /* k may be 0 */
  int first_tile;                         /* tiles of the products before it: rises, from 0 */
  float alpha;
  int reserved;
} TsCudaGemmProduct;
typedef struct TsCudaGemmProductOperand {
  void* data;
  long long row_stride;
  float value, limit;
} TsCudaGemmProductOperand;
typedef struct TsCudaGemmList {
  unsigned char entries[TS_GEMM_LIST_BYTES];
  int products, tiles;
} TsCudaGemmList;

/* The tensor maps of a Hopper kernel, by value as a __grid_constant__ parameter. */
typedef struct TsCudaGemmMaps {
  TsCudaTensorMap a, b, d, a2, b2, c; /* a2 and b2: cfg::kMmPlusMm only; c: with cfg::kStagedTensors */
  /* With args.edges, as a, b, a2 and b2, for the last tiles of rows and columns where those are cut: a box has the rows
   * of a, or columns of b, that there are. */
  TsCudaTensorMap edge_a, edge_b, edge_a2, edge_b2;
} TsCudaGemmMaps;

#endif
