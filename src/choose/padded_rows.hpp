// Rows that are copied to rows of whole 16 bytes before a kernel reads them by so many.
#pragma once

#include <cstdint>

namespace tilesmith {

/// Members of a batch, of rows that lie behind one another; all in bytes.
struct PaddedRows {
  std::int64_t batch = 1, rows = 0, row_bytes = 0;

  /// From one padded row to the next. Long rows fill whole lines of the cache, others whole sectors, so that no step of
  /// a tile straddles them.
  [[nodiscard]] std::int64_t stride() const {
    const std::int64_t unit = row_bytes >= 512 ? 128 : row_bytes > 16 ? 32 : 16;
    return (row_bytes + unit - 1) / unit * unit;
  }
  [[nodiscard]] std::int64_t bytes() const { return batch * rows * stride(); }
};

/// Most bytes of all matrices of a launch, which counts in 32 bits.
inline constexpr std::int64_t kMostPaddedBytes = std::int64_t{1} << 30;

}  // namespace tilesmith
