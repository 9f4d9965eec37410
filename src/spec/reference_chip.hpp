// A chip whose public figures stand for its architecture in estimates.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "vocabulary/data_type.hpp"

namespace tilesmith {

struct ReferenceChip {
  std::string chip;
  int compute_units = 0;
  double clock_hz = 0;
  double bytes_per_second = 0;
  std::vector<std::pair<DataType, double>> tflops;  ///< dense

  /// 0 where the chip has no such instruction.
  [[nodiscard]] double tflops_of(DataType type) const {
    for (const auto& [each, rate] : tflops)
      if (each == type) return rate;
    return 0;
  }
};

}  // namespace tilesmith
