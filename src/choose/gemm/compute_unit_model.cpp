#include "choose/gemm/compute_unit_model.hpp"

#include <algorithm>

#include "choose/rounding.hpp"
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
double tile_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type, std::int64_t k) {
  const double m = tile.m, n = tile.n;
  const double depth = static_cast<double>((ceil_div(k, tile.k) + kIdleSteps) * tile.k);
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * kReachedRate;
  const double products = 2 * m * n * depth / (unit_rate * tile.matrix_share);
  // Every wave reads its rows and columns of the tile; both operands are written once.
  const double read_rows = tile.waves_m * tile.waves_n * (m / tile.waves_m + n / tile.waves_n) + m + n;
  const double local = read_rows * depth * tile.element_bytes / (kLdsBytes * chip.clock_hz);
  // Elements that are fetched one by one take a transaction each.
  const double cache = (m + n) * depth * (tile.aligned ? tile.element_bytes : 4) / (kCacheBytes * chip.clock_hz);
  return std::max({products, local, cache}) * tile.blocks_per_cu;
}

}  // namespace

double predicted_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type,
                         const GemmProblem& problem) {
  const std::int64_t tiles = problem.batch * ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n);
  const std::int64_t places = std::int64_t{chip.compute_units} * tile.blocks_per_cu;
  // Blocks that are alone on a unit share it with nobody.
  const std::int64_t rounds = ceil_div(tiles, places);
  const double alone = std::min(1.0, static_cast<double>(tiles) / static_cast<double>(places));
  const double share = std::max(alone, 1.0 / tile.blocks_per_cu);
  const double work = static_cast<double>(rounds) * tile_seconds(tile, chip, type, problem.k) * share;
  const double memory = bytes_of(problem) / (kReachedBandwidth * chip.bytes_per_second);
  return kLaunchSeconds + std::max(work, memory);
}

}  // namespace tilesmith
