#include "choose/attention/compute_unit_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

// Bytes that a compute unit gets for each clock: from its cache, and from local memory (AMD CDNA 3 white paper; the
// other chips' are taken to be the same).
constexpr double kCacheBytes = 64, kLdsBytes = 128;
// Lanes of a compute unit's vector units, of which every fourth clock gives an exponential (CDNA instruction set
// references: transcendental functions at a quarter of the rate), and instructions beside it for a score: the greatest,
// its difference, the sum, the mask, the conversion.
constexpr double kLanes = 64, kExponentialClocks = 4, kInstructionsOfScore = 6;
// Shares of the public figures that kernels reach, and the start of one: assumed, not measured.
constexpr double kReachedRate = 0.7, kReachedBandwidth = 0.8, kLaunchSeconds = 5e-6;
// Steps that a block waits for at its start and its end.
constexpr double kIdleSteps = 2;

}  // namespace

double seconds_of(const ComputeUnitAttention& work, const HipReferenceChip& chip, DataType type) {
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * kReachedRate;
  // The scores of a wave wait for its products; a second wave of the SIMD fills half of these waits.
  const double products = work.flops_of_step / unit_rate;
  const double scores = work.scores_of_step * (kExponentialClocks + kInstructionsOfScore) / (kLanes * chip.clock_hz);
  const double shorter = std::min(products, scores);
  const double computing = std::max(products, scores) + shorter / std::max(1, work.waves_per_simd);
  const double local = work.local_of_step / (kLdsBytes * chip.clock_hz);
  const double fetched = work.fetched_of_step / (kCacheBytes * chip.clock_hz);
  const double block = (work.steps + kIdleSteps) * std::max({computing, local, fetched}) * work.blocks_per_cu;
  const std::int64_t places = std::int64_t{chip.compute_units} * work.blocks_per_cu;
  const std::int64_t rounds = ceil_div(work.blocks, places);
  // Blocks that are alone on a unit share it with nobody.
  const double share =
      std::max(std::min(1.0, static_cast<double>(work.blocks) / static_cast<double>(places)), 1.0 / work.blocks_per_cu);
  return kLaunchSeconds + std::max(static_cast<double>(rounds) * block * share,
                                   work.memory_bytes / (kReachedBandwidth * chip.bytes_per_second));
}

double seconds_of_pass(double bytes, const HipReferenceChip& chip) {
  return kLaunchSeconds + bytes / (kReachedBandwidth * chip.bytes_per_second);
}

}  // namespace tilesmith
