// What follows from a CUDA attention-forward config alone: threads, shared memory, registers. The formulas are those of
// kernels/cuda/attention/hopper/layout.cuh, kernels/cuda/attention/mma_sm80/layout.cuh and the layouts under
// kernels/cuda/attention/decode; a test compiles both sides against each other. Rules compare them with a
// chip's limits, dispatch launches by them.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaAttentionResources {
  int threads = 0;        ///< of a block
  long shared_bytes = 0;  ///< dynamic shared memory of a block
  int tile_rows = 0;      ///< rows of a block's tile: (query, packed head) pairs
  int tile_keys = 0;
  int warpgroups = 0;     ///< that multiply, 64 rows each, decode_wgmma the same 64; 0 in the portable template
  int warps = 0;          ///< that multiply, 16 rows each
  int chunk_qk = 0;       ///< portable: elements of head_dim_qk in shared memory at a time, a multiple of 16
  int column_blocks = 1;  ///< portable: blocks of threads that share head_dim_v out
  int row_warps = 0;      ///< decode: warps of a team, 16 rows each
  int key_warps = 0;      ///< decode: teams that share a block of keys out
  int warp_keys = 0;      ///< decode: keys of a team's step; of latent rows those that a warp or warpgroup scores
  int column_warps = 0;   ///< decode on latent rows: warps that share keys and columns out; key_warps is 0
  int unit_keys = 0;      ///< decode_wgmma on latent rows of 8 bits: rows that come together
  int row_pitch = 0;      ///< ... and bytes of shared memory from one to the next
  int blocks_per_sm = 1;  ///< at least so many share an SM by design; the portable template leaves it to the hardware
  /// Persistent: min(work items, SMs * blocks_per_sm) blocks walk all tiles. Else one block a tile: grid (row tiles *
  /// column_blocks, heads, batch), decode (row tiles * key heads, pieces of keys, batch) or, where sequences differ in
  /// length, as many as the chip holds.
  bool persistent = false;
  bool exact_boxes = false;       ///< boxes of queries, keys and values end where rows do
  bool tensor_maps = false;       ///< takes TsCudaTensorMaps before the arguments
  int free_warps = 0;             ///< that write the zeros of queries that see no key, beside the tiles
  bool joins_in_cluster = false;  ///< decode: a block's shared memory has room for its partial
  bool takes_from_queue = false;  ///< decode: blocks of a list that has more pieces take the next one from a queue
  bool grid_entry = false;  ///< decode_wgmma: an entry of its own, `.._of_grid`, takes pieces from the grid, not a list
  bool key_maps = false;    ///< takes TsCudaKeyMaps before the arguments
  bool bias_map = false;    ///< and reads a bias through the map of that name

  int launch_registers = 0;    ///< of a thread at launch: what the compiler may use before the roles part
  int producer_registers = 0;  ///< after setmaxnreg; 0 without roles
  int consumer_registers = 0;  ///< of a thread that multiplies
  int needed_registers = 0;    ///< estimate of what such a thread uses
  int operand_registers = 0;   ///< the most that one instruction names as its accumulator
};

/// Warps of a block of the decode template, and of one that has more keys in a step: then it has an SM for itself.
inline constexpr int kDecodeWarps = 4;
inline constexpr int kMostKeysOfDecodeWarps = 128;
constexpr int decode_warps(int tile_keys) {
  return tile_keys > kMostKeysOfDecodeWarps ? 2 * kDecodeWarps : kDecodeWarps;
}

/// The config must be attention with a native NVIDIA pipeline and a tile of whole warps (portable) or warpgroups.
[[nodiscard]] CudaAttentionResources cuda_attention_resources(const KernelConfig& config);

}  // namespace tilesmith
