// How long a CUDA attention instance should take: waves of tiles over the SMs at the row's share of the chip's peak, or
// the time the tensors take to pass through memory.
#pragma once

#include <cstdint>

#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// The sizes of a problem, as far as they decide between tiles. Group mode: the longest sequence's.
struct CudaAttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 0;
  std::int64_t seqlen_k = 0;
  /// An elementwise bias suits the copy engine: contiguous keys, a pointer and rows of whole 16 bytes.
  bool bias_can_be_copied = true;
  double visible = 1;                                ///< share of the query-key pairs that the mask leaves
  std::int64_t window_keys = std::int64_t{1} << 40;  ///< the most keys that a query sees, where a window bounds them
  std::int64_t splits = 0;                           ///< pieces that keys are to be cut into; 0: the model chooses
  bool uneven = false;                               ///< sequences differ in length: seqlen_k is the longest
  bool ragged = false;                               ///< group mode
  bool paged = false;
  bool vectorized_pages = false;
  bool narrow = false;  ///< keys and values are of 8 bits beside wider queries
  bool batch_invariant = false;
  bool appends = false;             ///< the call writes new keys first
  bool may_write_new_keys = false;  ///< and decode's kernels of mma.sync can do that: see writes_new_keys
};

[[nodiscard]] CudaAttentionShape cuda_attention_shape(const AttentionProblem& problem);

/// Blocks that walk over keys, one for each tile of rows.
[[nodiscard]] double cuda_row_blocks(const KernelConfig& config, const CudaAttentionShape& shape);

/// Whether the kernel's blocks of threads write the new keys of a problem that appends, each those that it attends to,
/// without waiting for one another: every new key is seen by its own query, and each key head has one tile of 16 rows.
[[nodiscard]] bool writes_new_keys(const KernelConfig& config, const CudaAttentionShape& shape);

/// Seconds on the spec's reference chip, whose figures may be those of the device at hand; a launch included. `row` is
/// the row of the tile table that the config was made from.
[[nodiscard]] double predicted_seconds(const KernelConfig& config, const CudaTile& row, const CudaSpec& spec,
                                       const CudaAttentionShape& shape);

}  // namespace tilesmith
