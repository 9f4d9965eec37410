// What follows from a CUDA GEMM config alone: how it accesses memory, threads, shared memory, registers, workspace. The
// formulas are those of kernels/cuda/gemm (hopper/layout.cuh, hopper/skinny.cuh, mma_sm80/layout.cuh, skinny/gemm.cuh);
// a test compiles both sides against each other. Rules compare them with a chip's limits, dispatch launches by them.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaGemmResources {
  int element_bytes = 0;  ///< of A and B, as they are multiplied
  int bits_of_b = 0;      ///< of an element of B in memory: integer weights have fewer
  int result_bytes = 0;   ///< of D
  int threads = 0;        ///< of a block
  long shared_bytes = 0;  ///< dynamic shared memory of a block
  long stage_bytes = 0;   ///< of it, what each stage takes
  long fixed_bytes = 0;   ///< and what takes as much whatever the stages are
  long slab_bytes = 0;    ///< what is stored at a time takes, unless it lies in the stages
  int blocks_per_sm = 1;
  bool persistent = false;      ///< at most SMs * blocks_per_sm blocks walk all tiles; else one block a work item
  bool tensor_maps = false;     ///< takes TsCudaGemmMaps before the arguments
  bool store_box = false;       ///< D goes out by the copy engine: its rows are multiples of 16 bytes
  bool pairs = false;           ///< D and the epilogue's tensors are accessed two elements at a time: n is even
  bool staged_tensors = false;  ///< the epilogue's tensors are read 16 bytes at a time
  bool copied_tensor = false;   ///< the first of them has a tensor map
  bool aligned = false;         ///< A and B are read 16 bytes at a time
  int list_products = 0;        ///< lists: products that a launch has room for
  int stage_k = 0;              ///< elements of k in a stage
  int tma_boxes = 0;            ///< skinny_tma, weight_only: boxes of 128 bytes of A's k in a stage
  int row_bytes_of_b = 0;       ///< weight_only: of a column of weights in a stage
  int warps = 0;                ///< that multiply
  int copy_rows = 0;            ///< with tensor maps: rows of A that are copied at a time
  int transposed_rows = 0;      ///< warp_specialized: of 128 bytes of k, of A and B in a stage, that are transposed
  int slab_row_bytes = 0;       ///< warp_specialized, weight_only: a row of what is stored at a time
  int box_rows = 64;            ///< and the rows of D that one copy of it takes
  bool slabs_in_ring = false;   ///< warp_specialized: what is stored lies in stages that are multiplied already

  int epilogue_columns = 0;  ///< of a slab by which an epilogue goes, whatever accesses are
  int turned_blocks = 0;     ///< transposed tiles: of 64 x 64 sums, turned as floats by a warpgroup for an epilogue
  bool epilogue_on_sums = false;  ///< transposed tiles: the epilogue is applied before sums are turned

  long part_bytes = 0;  ///< split products: of workspace, for one part of a tile
  int counters = 1;     ///< split products: 32-bit words, for a tile

  int accumulators = 0;        ///< sums that a thread keeps in registers; with block scales twice as many
  int launch_registers = 0;    ///< of a thread at launch
  int producer_registers = 0;  ///< after setmaxnreg; 0 without roles
  int consumer_registers = 0;  ///< of a thread that multiplies
};

/// Warpgroups that share wgmma's columns, all of its rows each: both of a transposed tile whose columns two cannot
/// share by whole 64s, else 1.
[[nodiscard]] int warpgroups_across(const Algorithm& algorithm);

/// Whether the copy engine may store the shares that blocks finish of a transposed tile's rows: equal ones, whole
/// eights, of as many rows as are turned together.
[[nodiscard]] bool turned_shares_are_boxes(int rows, int cluster_k);

/// The config must be a GEMM with a native NVIDIA pipeline and a tile and waves that are not zero.
[[nodiscard]] CudaGemmResources cuda_gemm_resources(const KernelConfig& config);

/// Makes the facts of a config those of one that differs in the number of stages alone, which it has now.
void change_stages(const KernelConfig& config, CudaGemmResources& facts);

}  // namespace tilesmith
