// What this machine can do at most, measured: the roofline that results are held against.
#pragma once

#include "base/error.hpp"
#include "runtime/cpu_machine.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

struct Ceilings {
  int threads = 1;
  double fp32_gflops = 0;  ///< fp32 fused multiply-adds, operands in registers
  double bf16_gflops = 0;  ///< the fastest bf16 product instruction, fp32 sums; 0 when the machine has none
  double read_gbps = 0;    ///< reading memory that is in no cache

  /// The least seconds a problem of these operations and bytes can take on inputs of this type.
  [[nodiscard]] double least_seconds(DataType type, double flops, double bytes) const;
};

/// Takes about a second. Errors: unsupported, when the machine has no level that Tilesmith knows.
[[nodiscard]] Result<Ceilings> measure_ceilings(int threads);

}  // namespace tilesmith
