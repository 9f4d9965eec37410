// tilesmith sweep --arch: the plan of a sweep on a chip that need not be here, and the kernels that it builds.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "sweep/operation.hpp"

namespace tilesmith::cli {

struct ArchSweep {
  std::string arch;
  std::string origin;                 ///< empty: Composable Kernel's for AMD chips, else own kernels
  std::string variant;                ///< of Composable Kernel's attention
  std::string ck_version;             ///< empty: the default
  std::string json;                   ///< the plan as JSON to this file; - is standard output
  std::vector<BenchProblems> shards;  ///< the problems, as --shard I/N cuts them
  int max_kernels = 0;
  int workers = 0;
  bool dry_run = false;  ///< print the plan; else build its kernels
};

/// Errors: invalid_argument; those of the plan; compile_failed, when kernels could not be built.
[[nodiscard]] Status sweep_for_arch(const ArchSweep& sweep);

}  // namespace tilesmith::cli
