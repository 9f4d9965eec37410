#include "verify/add_scaled.hpp"

#include "base/clones.hpp"

namespace tilesmith {

TS_CLONES void add_scaled(float* target, const float* sources, const float* weights, std::int64_t rows,
                          std::int64_t count) {
  constexpr std::int64_t kColumns = 64;  // whose sums stay in registers
  std::int64_t first = 0;
  for (; first + kColumns <= count; first += kColumns) {
    float sums[kColumns];
    for (std::int64_t i = 0; i < kColumns; ++i) sums[i] = target[first + i];
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < kColumns; ++i) sums[i] += weights[row] * sources[row * count + first + i];
    for (std::int64_t i = 0; i < kColumns; ++i) target[first + i] = sums[i];
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = first; i < count; ++i) target[i] += weights[row] * sources[row * count + i];
}

}  // namespace tilesmith
