// What follows from a CUDA attention-backward config alone: threads, shared memory, registers. The formulas are those
// of kernels/cuda/attention/backward/hopper/layout.cuh, rows/layout.cuh and mma_sm80/layout.cuh; a test compiles both
// sides against each other. Rules compare them with a chip's limits, dispatch launches by them.
#pragma once

#include "vocabulary/config.hpp"

namespace tilesmith {

/// Rows of a block of the kernel before the products, and what a sequence's rows in the workspace are rounded up to.
inline constexpr int kCudaBackwardRows = 128;

struct CudaBackwardResources {
  int threads = 0;        ///< of a block
  long shared_bytes = 0;  ///< dynamic shared memory of a block
  int tile_queries = 0;
  int box_queries = 0;  ///< rows of a copy of queries and do
  int box_keys = 0;     ///< rows of a copy of keys and values
  /// Items of keys can pass the gradients of scores to items of dq through the workspace.
  bool passes_score_gradients = false;
  int sum_columns = 0;  ///< of a row of dq in fp32: head_dim_qk in columns of 64; 0 where nothing is added in memory
  /// The products: min(work items, SMs) blocks walk all items. Else a block for each tile of rows, head and sequence.
  bool persistent = false;
  int launch_registers = 0;    ///< of a thread at launch: what the compiler may use before the roles part
  int producer_registers = 0;  ///< after setmaxnreg; 0 without roles
  int consumer_registers = 0;  ///< of a thread that multiplies
  int needed_registers = 0;    ///< estimate of what such a thread uses
};

/// The config must be of attention backward with a native NVIDIA pipeline.
[[nodiscard]] CudaBackwardResources cuda_backward_resources(const KernelConfig& config);

}  // namespace tilesmith
