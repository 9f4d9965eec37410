// Time that two things take which overlap in part.
#pragma once

#include <algorithm>
#include <cmath>

namespace tilesmith {

/// The less the larger `power` is: at 1 one waits for the other, at infinity the longer hides the other.
inline double overlapped(double a, double b, double power) {
  const double longer = std::max(a, b), shorter = std::min(a, b);
  return longer <= 0 ? 0 : longer * std::pow(1 + std::pow(shorter / longer, power), 1 / power);
}

}  // namespace tilesmith
