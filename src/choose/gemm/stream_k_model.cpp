#include "choose/gemm/stream_k_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "choose/compute_unit.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

constexpr double kSumBytes = 4;  // of an element that a block leaves for another

/// Of joining parts, and of setting to zero what they are joined in.
double join_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, const ComputeUnitProduct& product,
                    const StreamKShares& shares, std::int64_t blocks, StreamKReduction reduction, double result_bytes) {
  const double elements = static_cast<double>(tile.m) * tile.n;
  const auto parts = static_cast<double>(shares.parts), tiles = static_cast<double>(shares.shared);
  if (reduction == StreamKReduction::atomic) {
    // Every block of a shared tile reads, adds and writes; the whole result is zero before.
    const double zeroed = static_cast<double>(product.m) * static_cast<double>(product.n) * result_bytes;
    return compute_unit::pass_seconds(zeroed, chip) +
           compute_unit::memory_seconds(2 * (parts + tiles) * elements * result_bytes, chip);
  }
  if (shares.shared == 0) return compute_unit::kLaunchSeconds;  // there is no workspace to set to zero but flags
  const double of_tile = std::ceil(parts / tiles);
  const double turns = reduction == StreamKReduction::tree ? std::ceil(std::log2(1 + of_tile)) : of_tile;
  const double turn = elements * kSumBytes / (compute_unit::kCacheBytes * chip.clock_hz);
  return compute_unit::pass_seconds(static_cast<double>(blocks) * elements * kSumBytes, chip) +
         compute_unit::memory_seconds(2 * parts * elements * kSumBytes, chip) + turns * turn;
}

}  // namespace

StreamKShares stream_k_shares(std::int64_t tiles, std::int64_t steps, std::int64_t blocks) {
  const std::int64_t left = tiles % blocks;
  const std::int64_t shared = left == 0 ? 0 : tiles > blocks ? blocks + left : tiles;
  if (shared * steps < blocks) return {.whole = tiles};
  // A block that does not begin a tile leaves its sums for the one that does.
  return {.whole = tiles - shared, .shared = shared, .parts = shared == 0 ? 0 : blocks - std::gcd(shared, blocks)};
}

double stream_k_seconds(const ComputeUnitTile& tile, const ReferenceChip& chip, DataType type,
                        const ComputeUnitProduct& product, StreamKReduction reduction, double result_bytes) {
  const std::int64_t tiles = ceil_div(product.m, tile.m) * ceil_div(product.n, tile.n);
  const std::int64_t steps = ceil_div(product.k, tile.k);
  const std::int64_t blocks = std::int64_t{chip.compute_units} * tile.blocks_per_cu;
  const StreamKShares shares = stream_k_shares(tiles, steps, blocks);
  const double join = join_seconds(tile, chip, product, shares, blocks, reduction, result_bytes);
  if (shares.shared == 0) return predicted_seconds(tile, chip, type, product) + join;
  const double rounds = static_cast<double>(shares.whole / blocks);
  const double begun = 1 + static_cast<double>(shares.shared) / static_cast<double>(blocks);
  const double shared_steps = static_cast<double>(ceil_div(shares.shared * steps, blocks));
  const double work = (rounds * static_cast<double>(steps + compute_unit::kIdleSteps) + shared_steps +
                       begun * compute_unit::kIdleSteps) *
                      step_seconds(tile, chip, type);
  return compute_unit::kLaunchSeconds + std::max(work, compute_unit::memory_seconds(product.bytes, chip)) + join;
}

}  // namespace tilesmith
