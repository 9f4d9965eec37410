// Division that rounds up, of sizes and of counts in cost models.
#pragma once

#include <cmath>
#include <cstdint>

namespace tilesmith {

[[nodiscard]] inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
[[nodiscard]] inline double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

}  // namespace tilesmith
