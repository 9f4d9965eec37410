#include "verify/signed_sums.hpp"

#include <cstddef>

#include "base/random.hpp"

namespace tilesmith {

std::vector<double> column_signs(std::int64_t columns) {
  constexpr RandomStream kSigns{.seed = 1977};
  std::vector<double> signs(static_cast<std::size_t>(columns));
  for (std::size_t j = 0; j < signs.size(); ++j) signs[j] = kSigns.bits(j) % 2 == 0 ? 1 : -1;
  return signs;
}

}  // namespace tilesmith
