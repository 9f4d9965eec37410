// Sums of the elements of a row over blocks of columns, with random signs: of results that are linear in a matrix, they
// are known from that matrix's sums.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesmith {

/// Columns of a sum: bf16's roundings of so many are a seventh of a usual element.
inline constexpr std::int64_t kSignedBlock = 32;

/// 1 or -1 for each column; the same each time.
[[nodiscard]] std::vector<double> column_signs(std::int64_t columns);

}  // namespace tilesmith
