// What choosing among CPU kernels needs to know of a machine: plain figures, so that a choice can be made, and tested,
// for any machine on any other.
#pragma once

#include <vector>

#include "spec/cpu/spec.hpp"

namespace tilesmith {

struct CpuFacts {
  int threads = 1;              ///< threads that a call may use
  std::vector<CpuSpec> levels;  ///< levels whose kernels the machine runs, highest first, with the machine's figures

  /// Null when the machine does not run the level.
  [[nodiscard]] const CpuSpec* level(const ArchName& arch) const {
    for (const CpuSpec& spec : levels)
      if (spec.arch == arch) return &spec;
    return nullptr;
  }
};

}  // namespace tilesmith
