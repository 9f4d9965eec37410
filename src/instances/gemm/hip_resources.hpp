// What follows from an own AMD GEMM config and the facts of its instruction: threads, local memory, registers. The
// formulas are those of kernels/hip/gemm (tile.h, gemm.h); a test compares them with what the compiler reports.
#pragma once

#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct HipGemmResources {
  int element_bytes = 0;  ///< of A and B
  int threads = 0;        ///< of a block
  long lds_bytes = 0;     ///< of a block
  int blocks_per_cu = 1;
  int waves_per_simd = 1;     ///< that blocks_per_cu asks for
  int accumulators = 0;       ///< sums of a lane
  int registers = 0;          ///< of a lane, the fewest that do: sums, what is on its way, fragments, addresses
  int registers_allowed = 0;  ///< of a lane, for waves_per_simd
  bool aligned = false;       ///< A and B are read 16 bytes at a time
  bool wide = false;          ///< D and the epilogue's tensors are accessed kHipGemmRun elements at a time
};

/// Elements of D that pass the epilogue together, and that wide accesses take at a time.
inline constexpr int kHipGemmRun = 4;

/// The config must be a GEMM whose tile, waves and fragment are not zero.
[[nodiscard]] HipGemmResources hip_gemm_resources(const KernelConfig& config, const HipSpec& spec,
                                                  const HipFragment& fragment);

}  // namespace tilesmith
