#include "choose/gemm/cuda_work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "choose/gemm/cuda_model.hpp"
#include "choose/rounding.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "kernels/cuda/gemm/abi.h"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostSplits = 16;  // of a tile that is in no row of the table

/// A round of tiles reads the least of A and B where it is as high as it is wide; all bands are of about one height.
int band_of(const Algorithm& a, const CudaGemmShape& shape, std::int64_t clusters_at_a_time) {
  const int height = std::max(a.tile[0] * a.cluster[0], 1), width = std::max(a.tile[1] * a.cluster[1], 1);
  const std::int64_t rows = std::max<std::int64_t>(ceil_div(shape.m, std::int64_t{height}), 1);
  const double square = std::sqrt(static_cast<double>(clusters_at_a_time) * width / height);
  const auto bands = std::max<std::int64_t>(std::llround(static_cast<double>(rows) / square), 1);
  return static_cast<int>(ceil_div(rows, bands));
}

/// A cluster of blocks that is there for their places asks for the least of A and B as a rectangle of tiles.
int band_of_placed(const Algorithm& a, const CudaGemmShape& shape, int blocks) {
  const std::int64_t rows = ceil_div(shape.m, std::int64_t{std::max<int>(a.tile[0], 1)});
  int best = 1;
  const auto asked = [&](int band) { return band * a.tile[0] + blocks / band * a.tile[1]; };
  for (int band = 2; band <= rows && blocks % band == 0; band *= 2)
    if (asked(band) < asked(best)) best = band;
  return best;
}

int splits_of(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile* row, const CudaSpec& spec,
              const CudaGemmShape& shape) {
  if (!config.algorithm.split_k) return 1;
  const std::int64_t most = row == nullptr ? kMostSplits : std::max(row->splits, 2);
  const std::int64_t steps = cuda_gemm_steps(shape, std::max<int>(config.algorithm.tile[2], 1));
  const std::int64_t tiles = std::max<std::int64_t>(cuda_gemm_tiles(config, shape), 1);
  const std::int64_t shared_by = std::max<std::int64_t>(config.algorithm.cluster_k, 1);
  const std::int64_t one_round = cuda_gemm_blocks_at_a_time(config.algorithm, facts, spec) / shared_by / tiles;
  const int limit = static_cast<int>(std::min(std::clamp<std::int64_t>(one_round, 2, most), steps / shared_by));
  if (limit < 2) return 1;
  int best = 2;
  double least = cuda_gemm_item_seconds(config, facts, row, spec, shape, best);
  for (int splits = best + 1; splits <= limit; ++splits) {
    const double seconds = cuda_gemm_item_seconds(config, facts, row, spec, shape, splits);
    if (seconds >= least) continue;
    best = splits;
    least = seconds;
  }
  return best;
}

}  // namespace

std::int64_t cuda_gemm_places(const CudaGemmResources& facts, const CudaSpec& spec) {
  return std::int64_t{spec.reference.sms} * facts.blocks_per_sm;
}

std::int64_t cuda_gemm_places(const KernelConfig& config, const CudaSpec& spec) {
  return cuda_gemm_places(cuda_gemm_resources(config), spec);
}

std::int64_t cuda_gemm_clusters(int blocks, int blocks_per_sm, const CudaSpec& spec) {
  const std::vector<double>& shares = spec.gemm.cluster_sms;
  const auto size = static_cast<std::size_t>(std::max(blocks, 2)) - 2;
  const double share = shares.empty() ? 1 : shares[std::min(size, shares.size() - 1)];
  const auto sms = static_cast<std::int64_t>(share * spec.reference.sms);
  return std::max<std::int64_t>(sms * blocks_per_sm / std::max(blocks, 1), 1);
}

std::int64_t cuda_gemm_blocks_at_a_time(const Algorithm& algorithm, const CudaGemmResources& facts,
                                        const CudaSpec& spec) {
  const int blocks = algorithm.cluster[0] * algorithm.cluster[1] * algorithm.cluster_k;
  return blocks == 1 ? cuda_gemm_places(facts, spec) : cuda_gemm_clusters(blocks, facts.blocks_per_sm, spec) * blocks;
}

int cuda_gemm_placed(const KernelConfig& config, const CudaGemmResources& facts, const CudaSpec& spec,
                     const CudaGemmShape& shape, std::int64_t tiles) {
  const Algorithm& a = config.algorithm;
  const bool alone = a.pipeline == Pipeline::warp_specialized && a.cluster[0] * a.cluster[1] == 1 && !a.split_k &&
                     !a.stream_k && shape.grouping == GemmGrouping::none;
  const int blocks = spec.gemm.placed_blocks;
  const std::int64_t places = cuda_gemm_places(facts, spec);
  if (!alone || blocks == 0 || !shape.may_place || tiles > places) return 1;
  if (a.cluster_k > 1) {
    const int together = blocks / a.cluster_k * a.cluster_k;
    const std::int64_t all = ceil_div(tiles * a.cluster_k, std::int64_t{together}) * together;
    const bool fits = all <= cuda_gemm_clusters(together, facts.blocks_per_sm, spec) * together;
    return together > a.cluster_k && 2 * tiles * a.cluster_k > places && fits ? together : 1;
  }
  if (shape.m <= a.tile[0] || tiles > cuda_gemm_clusters(blocks, facts.blocks_per_sm, spec) * blocks) return 1;
  // Where two rows leave a fifth of the SMs idle, those that memory feeds want their way to it alone: 120 x 10240 x
  // 8192 by 64 x 224 took 49.3 us and 46.6. A band that is cut reads B from memory again: 3 rows took up to 1.4 times
  // as long.
  const std::int64_t rows = ceil_div(shape.m, std::int64_t{a.tile[0]});
  const bool fills = rows > 2 ? 2 * tiles > places : 5 * tiles > 4 * places;
  if (!fills) return 1;
  const std::int64_t band = band_of_placed(a, shape, blocks);
  return rows % band == 0 || rows >= 4 * band ? blocks : 1;
}

int cuda_gemm_splits(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                     const CudaGemmShape& shape) {
  return config.algorithm.split_k ? splits_of(config, cuda_gemm_resources(config), row, spec, shape) : 1;
}

int cuda_gemm_cluster_k(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                        const CudaGemmShape& shape) {
  if (row.cluster_k <= 1) return 1;
  const std::int64_t tiles = cuda_gemm_tiles(config, shape);
  int most = row.cluster_k;
  while (most > 1 && tiles > cuda_gemm_clusters(most, row.blocks_per_sm, spec)) --most;
  most = static_cast<int>(
      std::min<std::int64_t>(most, cuda_gemm_steps(shape, std::max<int>(config.algorithm.tile[2], 1))));
  if (most <= 1) return 1;
  const CudaGemmResources facts = cuda_gemm_resources(config);
  KernelConfig tried = config;
  Algorithm& a = tried.algorithm;
  int best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int blocks = most; blocks > 1; --blocks) {
    if (!a.transpose_c && a.tile[1] % (16 * blocks) != 0) continue;  // shares that are no whole slabs
    a.cluster_k = static_cast<std::uint8_t>(blocks);
    const int splits = cuda_gemm_splits(tried, &row, spec, shape);
    const double seconds = cuda_gemm_item_seconds(tried, facts, &row, spec, shape, splits);
    if (seconds >= least) break;
    best = blocks;
    least = seconds;
  }
  return best;
}

CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                            const CudaGemmShape& shape) {
  return cuda_gemm_work(config, cuda_gemm_resources(config), row, spec, shape);
}

CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaGemmResources& facts, const CudaGemmTile* row,
                            const CudaSpec& spec, const CudaGemmShape& shape) {
  // A cluster's run of stream-K is not worth its parts when it is shorter, nor a tile when it has more parts.
  constexpr std::int64_t kLeastSteps = 4, kMostParts = 16;
  const Algorithm& a = config.algorithm;
  const std::int64_t cluster = std::int64_t{a.cluster[0]} * a.cluster[1];
  const std::int64_t all_tiles = cuda_gemm_tiles(config, shape), tiles = std::max(all_tiles, cluster);
  const std::int64_t at_a_time = std::max<std::int64_t>(cuda_gemm_blocks_at_a_time(a, facts, spec) / cluster, 1);
  const bool one_round = a.pipeline == Pipeline::warp_specialized && shape.grouping == GemmGrouping::none &&
                         cluster == 1 && a.cluster_k == 1 && !a.split_k && tiles <= at_a_time;
  // Where all tiles run at a time, those of a GPC should read the least of A and B: 1000 x 576 x 7168 by 80 x 64 takes
  // 21.8 us where its 13 rows of tiles are one band, 16.6 in bands of four (bf16, H200); in any order at random 24.4.
  // In clusters, whose blocks stand on one GPC whenever they start, 17.5 (64 x 96; the same in bands, late, 19.3).
  const std::int64_t side_by_side = one_round && spec.gemm.neighbours > 0 ? spec.gemm.neighbours : at_a_time;
  const int placed = cuda_gemm_placed(config, facts, spec, shape, all_tiles);
  CudaGemmWork work{
      .band = placed > 1 ? band_of_placed(a, shape, placed / a.cluster_k) : band_of(a, shape, side_by_side),
      .placed = placed};
  if (a.stream_k) {
    const std::int64_t each = tiles / cluster, steps = std::max<std::int64_t>(cuda_gemm_steps(shape, facts.stage_k), 1);
    const std::int64_t clusters =
        std::min({at_a_time, each * kMostParts, std::max(each * steps / kLeastSteps, std::min(each, at_a_time))});
    work.items = tiles;
    work.blocks = clusters * cluster;
    work.places = 2 * work.blocks;
    work.counters = std::min(2 * clusters, each) * cluster * facts.counters;
    return work;
  }
  work.splits = splits_of(config, facts, row, spec, shape);
  work.items = tiles * work.splits * a.cluster_k;
  // A cluster that shares a tile by k has no other one.
  work.blocks = facts.persistent && a.cluster_k == 1 ? std::min(work.items, at_a_time * cluster) : work.items;
  work.blocks = ceil_div(work.blocks, std::int64_t{placed}) * placed;  // spare ones find no tile
  if (a.split_k) {
    work.places = a.split_k_atomic ? tiles : tiles * work.splits;
    work.counters = tiles * facts.counters * a.cluster_k;
    const bool in_groups = a.pipeline == Pipeline::warp_specialized && !a.split_k_atomic && a.cluster_k == 1;
    if (in_groups) work.counters *= 1 + TS_GEMM_PART_GROUPS;
  }
  if (a.pipeline == Pipeline::warp_specialized && shape.grouping == GemmGrouping::none) {
    const std::int64_t rows_of_tiles = ceil_div(shape.m, std::int64_t{a.tile[0]} * a.cluster[0]) * a.cluster[0];
    const std::int64_t steps = cuda_gemm_steps(shape, facts.stage_k) / work.splits / a.cluster_k;
    const auto at_most = [](std::int64_t value, double limit) { return static_cast<double>(value) <= limit; };
    work.b_first = at_most(shape.m, spec.gemm.b_first_m);
    // Neighbours that copy for each other run side by side however the kernel before ends. Blocks with one item each
    // keep the order they begin in: by an early start 564 x 1536 x 7168 takes 28.9 us instead of 23.2 (64 x 112, nine
    // rows of tiles, H100), where several rounds of nine rows and more take the same either way.
    const bool ends_late = at_most(rows_of_tiles, spec.gemm.next_at_end_rows) ||
                           (spec.gemm.next_at_end_rows > 0 && a.cluster_k == 1 && work.items <= work.blocks);
    work.late_launch_dependents = cluster == 1 && placed == 1 && rows_of_tiles > 1 && ends_late &&
                                  !at_most(steps, spec.gemm.next_at_end_steps - 1) &&
                                  2 * work.blocks > cuda_gemm_places(facts, spec);
  }
  return work;
}

bool cuda_gemm_shares(const KernelConfig& config, const CudaGemmWork& work) {
  return work.splits > 1 || (config.algorithm.stream_k && work.items % work.blocks != 0);
}

CudaGemmWork cuda_gemm_work(const KernelConfig& config, const CudaSpec& spec, const CudaGemmShape& shape) {
  return cuda_gemm_work(config, row_of(config, spec), spec, shape);
}

}  // namespace tilesmith
