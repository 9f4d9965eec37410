#include "choose/gemm/hip_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
#include "instances/gemm/hip_resources.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

// Bytes that a compute unit gets for each clock: from its cache, and from local memory (AMD CDNA 3 white paper; RDNA's
// are taken to be the same).
constexpr double kCacheBytes = 64;
constexpr double kLdsBytes = 128;
// Shares of the public figures that kernels reach, and the start of one: assumed, not measured.
constexpr double kReachedRate = 0.7;
constexpr double kReachedBandwidth = 0.8;
constexpr double kLaunchSeconds = 5e-6;
// Steps of k that a tile waits for at its start and its end.
constexpr std::int64_t kIdleSteps = 2;

/// Of one tile on its share of a compute unit: the slowest of products, local memory and cache, which work side by
/// side.
double tile_seconds(const KernelConfig& config, const HipSpec& spec, const HipGemmResources& facts, std::int64_t k) {
  const Algorithm& a = config.algorithm;
  const HipReferenceChip& chip = spec.reference;
  const double m = a.tile[0], n = a.tile[1];
  const double depth = static_cast<double>((ceil_div(k, a.tile[2]) + kIdleSteps) * a.tile[2]);
  const DataType type = std::get<GemmSignature>(config.signature).a;
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * kReachedRate;
  const double products = 2 * m * n * depth / unit_rate;
  // Every wave reads its rows and columns of the tile; both operands are written once.
  const double read_rows = a.wave[0] * a.wave[1] * (m / a.wave[0] + n / a.wave[1]) + m + n;
  const double local = read_rows * depth * facts.element_bytes / (kLdsBytes * chip.clock_hz);
  // Elements that are fetched one by one take a transaction each.
  const double cache = (m + n) * depth * (facts.aligned ? facts.element_bytes : 4) / (kCacheBytes * chip.clock_hz);
  return std::max({products, local, cache}) * facts.blocks_per_cu;
}

}  // namespace

double predicted_seconds(const KernelConfig& config, const HipSpec& spec, const GemmProblem& problem) {
  const Algorithm& a = config.algorithm;
  const HipFragment* fragment = spec.fragment(problem.type_a, a.warp[0]);
  const HipGemmResources facts = hip_gemm_resources(config, spec, *fragment);
  const std::int64_t tiles = problem.batch * ceil_div(problem.m, a.tile[0]) * ceil_div(problem.n, a.tile[1]);
  const std::int64_t places = std::int64_t{spec.reference.compute_units} * facts.blocks_per_cu;
  // Blocks that are alone on a unit share it with nobody.
  const std::int64_t rounds = ceil_div(tiles, places);
  const double alone = std::min(1.0, static_cast<double>(tiles) / static_cast<double>(places));
  const double share = std::max(alone, 1.0 / facts.blocks_per_cu);
  const double work = static_cast<double>(rounds) * tile_seconds(config, spec, facts, problem.k) * share;
  const double memory = bytes_of(problem) / (kReachedBandwidth * spec.reference.bytes_per_second);
  return kLaunchSeconds + std::max(work, memory);
}

}  // namespace tilesmith
