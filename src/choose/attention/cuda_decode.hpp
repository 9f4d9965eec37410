// How a launch of the decode template shares the keys of a problem out, and how long it should take: pure functions of
// the problem and the chip.
#pragma once

#include <cstdint>

#include "choose/attention/cuda_model.hpp"

namespace tilesmith {

/// Sequences of a queue whose long pieces can go first: a thread of each team that walks it has one (list.cuh).
constexpr std::int64_t kMostOrderedSequences = 128;

/// An item is a tile of rows of one key head of one sequence.
struct CudaDecodeWork {
  std::int64_t row_blocks = 0;   ///< tiles of rows of a key head
  std::int64_t items = 0;        ///< of all sequences and key heads
  std::int64_t piece_tiles = 1;  ///< blocks of keys of a piece
  std::int64_t pieces = 1;       ///< of the longest item: exactly those that the kernel counts, or more
  /// Where sequences differ in length: pieces are made longer until there are about so many; 0: they are not.
  std::int64_t wanted_pieces = 0;
  /// The same where the device finds sequences of one length: one for each block, or whole items; 0: as elsewhere.
  std::int64_t wanted_of_even = 0;
  /// Batch-invariant: an item's pieces follow from its own keys, so many at most; 0: they do not.
  std::int64_t most_pieces = 0;
  bool joins_apart = false;     ///< partial results are joined by a launch of its own, not by the last to arrive
  std::int64_t join_warps = 1;  ///< of that launch: those that share the pieces of a row out
  std::int64_t join_units = 1;  ///< of it: 128 columns of a row each, that a warp takes at once
  /// Pieces of every item, one a block, that the blocks of clusters join through shared memory, without a list; 0: none
  /// do.
  std::int64_t cluster = 0;
  std::int64_t blocks = 0;  ///< of threads
  /// Of tensors: so many key heads, of all sequences, are not cut, and the others into `pieces`: they fill what whole
  /// ones leave of the chip.
  std::int64_t whole_heads = 0;
  /// Where sequences differ in length: each piece has a block by its place in the grid, and no list is worked out.
  bool of_grid = false;
  bool queued = false;         ///< blocks take pieces from a queue: there may be more pieces than blocks
  bool apart = false;          ///< no two of the blocks may share an SM: there is one for each
  bool ends_unevenly = false;  ///< some blocks take far longer than others
  double seconds = 0;          ///< that the launch should take
};

/// The pieces that should take the least time, or shape.splits of them where that is not 0, or those of a
/// batch-invariant problem: of so many keys at least, a number, that an item has no more of them than a number that its
/// heads decide. Where sequences differ in length, a piece's least length follows from the longest sequence alone,
/// unless pieces of that length were needlessly short for the batch; the kernel makes them longer where the lengths
/// that it finds allow it.
[[nodiscard]] CudaDecodeWork cuda_decode_work(const KernelConfig& config, const CudaSpec& spec,
                                              const CudaAttentionShape& shape);

/// The figures of a kernel of a pipeline that cuts keys.
[[nodiscard]] const CudaDecodeModel& decode_model(const KernelConfig& config, const CudaSpec& spec);

/// Whether the queries of a key head fit one tile.
[[nodiscard]] bool has_few_rows(const CudaAttentionShape& shape);

/// Whether the template is meant for the problem: it has few rows, or keys that are no tensors of the queries' type.
[[nodiscard]] bool suits_decode(const CudaAttentionShape& shape);

/// Whether the queries of a key head fit a few tiles: predictions choose between the template and tiles of queries. Not
/// where sequences differ in length, nor where the choice may not depend on how many there are.
[[nodiscard]] bool has_few_tiles(const CudaAttentionShape& shape);

}  // namespace tilesmith
