// What follows from an own AMD attention config and the facts of its instruction: threads, local memory, registers. The
// formulas are those of kernels/hip/attention/layout.h; a test compares them with what the compiler reports.
#pragma once

#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Elements that are read at a time, 16 bytes, unless rows are read by single elements.
inline constexpr int kHipAttentionChunk = 8;

struct HipAttentionResources {
  int threads = 0;              ///< of a block
  int tile_rows = 0;            ///< of a block; of a join those of the blocks whose results it joins
  int waves = 0;                ///< of a block
  int column_waves = 1;         ///< that share rows, and divide the columns of outputs
  int tile_keys = 0;            ///< of a block of keys
  bool queries_in_lds = false;  ///< else a lane keeps its part of its row in registers
  bool shared_place = false;    ///< values take the keys' place in local memory
  long lds_bytes = 0;           ///< of a block
  int blocks_per_cu = 1;
  int waves_per_simd = 1;  ///< that blocks_per_cu asks for
  double busy_share = 1;   ///< of a unit's SIMDs that these keep busy
  int registers = 0;       ///< of a lane, the fewest that do: outputs, scores, operands, what is on its way, addresses
  int registers_allowed = 0;  ///< of a lane, for waves_per_simd
};

/// The config must be attention whose waves and keys are not zero; keys are a multiple of the fragment's side.
[[nodiscard]] HipAttentionResources hip_attention_resources(const KernelConfig& config, const HipSpec& spec,
                                                            const HipFragment& fragment);

}  // namespace tilesmith
