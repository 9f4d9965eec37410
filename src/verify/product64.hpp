// The float64 matrix product under the references.
#pragma once

#include <cstdint>

namespace tilesmith {

inline constexpr std::int64_t kProductRows = 32;     // of a block: enough to share the conversion of the right matrix
inline constexpr std::int64_t kProductColumns = 16;  // handled at a time

constexpr std::int64_t padded_columns(std::int64_t columns) {
  return (columns + kProductColumns - 1) / kProductColumns * kProductColumns;
}

/// c += a b, with a (kProductRows x depth), b (depth x columns), c (kProductRows x columns) dense but for a's row
/// stride; columns is a multiple of kProductColumns.
void multiply_add64(const double* a, std::int64_t a_stride, const double* b, double* c, std::int64_t depth,
                    std::int64_t columns);

}  // namespace tilesmith
