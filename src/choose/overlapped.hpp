// Time that two things take which overlap in part.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

namespace tilesmith {

/// The less the larger `power` is: at 1 one waits for the other, at infinity the longer hides the other.
inline double overlapped(double a, double b, double power) {
  const double longer = std::max(a, b), shorter = std::min(a, b);
  if (longer <= 0) return 0;
  const double share = shorter / longer;
  const auto whole = static_cast<unsigned>(power);
  if (whole != power || !std::has_single_bit(whole)) return longer * std::pow(1 + std::pow(share, power), 1 / power);
  // By squares and their roots: ranking a GEMM asks for each of its candidates.
  double hidden = share;
  for (unsigned p = whole; p > 1; p /= 2) hidden *= hidden;
  double times = 1 + hidden;
  for (unsigned p = whole; p > 1; p /= 2) times = std::sqrt(times);
  return longer * times;
}

}  // namespace tilesmith
