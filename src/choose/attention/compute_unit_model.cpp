#include "choose/attention/compute_unit_model.hpp"

#include <algorithm>
#include <cmath>

#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

// Lanes of a compute unit's vector units, of which every fourth clock gives an exponential (CDNA instruction set
// references: transcendental functions at a quarter of the rate), and instructions beside it for a score: scaling, the
// greatest, its difference, the sum, two conversions.
constexpr double kLanes = 64, kExponentialClocks = 4, kInstructionsOfScore = 6;

}  // namespace

double seconds_of(const ComputeUnitAttention& work, const ReferenceChip& chip, DataType type) {
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * compute_unit::kReachedRate;
  // The scores of a wave wait for its products; blocks that share a unit fill each other's waits, which is counted by
  // their number below.
  const double products = work.flops_of_step / unit_rate;
  const double scores = work.scores_of_step * (kExponentialClocks + kInstructionsOfScore) / (kLanes * chip.clock_hz);
  const double computing =
      (work.blocks_per_cu > 1 ? std::max(products, scores) + std::min(products, scores) / 2 : products + scores) /
      work.busy_share;
  const double local = work.local_of_step / (compute_unit::kLdsBytes * chip.clock_hz);
  const double fetched = work.fetched_of_step / (compute_unit::kCacheBytes * chip.clock_hz);
  const double block =
      (work.steps + compute_unit::kIdleSteps) * std::max({computing, local, fetched}) * work.blocks_per_cu;
  const std::int64_t places = std::int64_t{chip.compute_units} * work.blocks_per_cu;
  const std::int64_t rounds = ceil_div(work.blocks, places);
  // Blocks that are alone on a unit share it with nobody.
  const double share =
      std::max(std::min(1.0, static_cast<double>(work.blocks) / static_cast<double>(places)), 1.0 / work.blocks_per_cu);
  // Neither hides the other whole; and of kernels that wait for memory the one with less work goes first.
  return compute_unit::kLaunchSeconds +
         std::hypot(static_cast<double>(rounds) * block * share, compute_unit::memory_seconds(work.memory_bytes, chip));
}

}  // namespace tilesmith
