// An interval of whole numbers in a spec: [lowest, highest], both ends belong to it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {

struct CudaRange {
  int low = 0;
  int high = 0;
  [[nodiscard]] bool holds(std::int64_t value) const { return value >= low && value <= high; }
};

/// Both ends are from `low` to `high`.
[[nodiscard]] inline Result<CudaRange> read_cuda_range(const JsonReader& reader, int low, int high) {
  TS_ASSIGN(const std::vector<int> ends, reader.integers(low, high));
  if (ends.size() != 2 || ends[0] > ends[1]) return reader.refuse("[lowest, highest]");
  return CudaRange{ends[0], ends[1]};
}

}  // namespace tilesmith
