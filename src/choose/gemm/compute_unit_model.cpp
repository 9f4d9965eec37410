#include "choose/gemm/compute_unit_model.hpp"

#include <algorithm>

#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

/// Of one tile on its share of a compute unit.
double tile_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type, std::int64_t k) {
  return static_cast<double>(ceil_div(k, tile.k) + compute_unit::kIdleSteps) * step_seconds(tile, chip, type);
}

}  // namespace

double step_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type) {
  const double m = tile.m, n = tile.n, depth = tile.k;
  const double unit_rate = chip.tflops_of(type) * 1e12 / chip.compute_units * compute_unit::kReachedRate;
  const double products = 2 * m * n * depth / (unit_rate * tile.matrix_share);
  // Every wave reads its rows and columns of the tile; both operands are written once. A B in the order of fragments
  // does not pass through local memory: each wave fetches its columns.
  const int waves = tile.waves_m * tile.waves_n;
  const double read_rows = waves * m / tile.waves_m + m + (tile.b_in_fragments ? 0 : waves * n / tile.waves_n + n);
  const double fetched_rows = m + n * (tile.b_in_fragments ? tile.waves_m : 1);
  const double local = read_rows * depth * tile.element_bytes / (compute_unit::kLdsBytes * chip.clock_hz);
  // Elements that are fetched one by one take a transaction each.
  const double cache =
      fetched_rows * depth * (tile.aligned ? tile.element_bytes : 4) / (compute_unit::kCacheBytes * chip.clock_hz);
  return std::max({products, local, cache}) * tile.blocks_per_cu;
}

double predicted_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type,
                         const ComputeUnitProduct& product) {
  const std::int64_t tiles = product.batch * ceil_div(product.m, tile.m) * ceil_div(product.n, tile.n);
  const std::int64_t places = std::int64_t{chip.compute_units} * tile.blocks_per_cu;
  // Blocks that are alone on a unit share it with nobody.
  const std::int64_t rounds = ceil_div(tiles, places);
  const double alone = std::min(1.0, static_cast<double>(tiles) / static_cast<double>(places));
  const double share = std::max(alone, 1.0 / tile.blocks_per_cu);
  const double work = static_cast<double>(rounds) * tile_seconds(tile, chip, type, product.k) * share;
  const double memory = compute_unit::memory_seconds(product.bytes, chip);
  return compute_unit::kLaunchSeconds + std::max(work, memory);
}

}  // namespace tilesmith
