#include "dispatch/serving/cpu_turn.hpp"

#include "base/clones.hpp"

namespace tilesmith {
namespace {

TS_CLONES void turn_halves(float* __restrict low, float* __restrict high, const float* __restrict cosines,
                           const float* __restrict sines, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float a = low[i], b = high[i];
    low[i] = a * cosines[i] - b * sines[i];
    high[i] = b * cosines[i] + a * sines[i];
  }
}

TS_CLONES void turn_neighbours(float* __restrict row, const float* __restrict cosines, const float* __restrict sines,
                               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float a = row[2 * i], b = row[2 * i + 1];
    row[2 * i] = a * cosines[i] - b * sines[i];
    row[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void turn(const Rotary& rotary, std::int64_t position, float* row) {
  const float* const cosines = rotary.cos + position * rotary.row_stride;
  const float* const sines = rotary.sin + position * rotary.row_stride;
  const std::int64_t half = rotary.dim / 2;
  if (rotary.style == RotaryStyle::half)
    turn_halves(row, row + half, cosines, sines, half);
  else
    turn_neighbours(row, cosines, sines, half);
}

}  // namespace tilesmith
