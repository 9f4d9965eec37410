// How a launch of the decode kernels for AMD GPUs shares the keys of a problem out, and how long it should take.
#pragma once

#include <cstdint>

#include "spec/hip/spec.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// An item is a tile of rows, (query, head of the group) pairs, of one key head of one sequence.
struct HipDecodeWork {
  std::int64_t row_tiles = 0;    ///< of a key head of the longest sequence
  std::int64_t items = 0;        ///< of all sequences and key heads
  std::int64_t piece_tiles = 1;  ///< blocks of keys of a piece
  std::int64_t pieces = 1;       ///< of the longest item: those that the kernel counts, or more
  double seconds = 0;            ///< that both steps should take
};

/// The pieces that should take the least time, or problem.splits of them where that is not 0. `config` is a decode
/// kernel that the rules accept.
[[nodiscard]] HipDecodeWork hip_decode_work(const KernelConfig& config, const HipSpec& spec,
                                            const AttentionProblem& problem);

/// Whether decode is meant for the problem: its queries of a key head fit one tile, or no other kernel reads pages.
[[nodiscard]] bool suits_hip_decode(const AttentionProblem& problem);

}  // namespace tilesmith
