// Kernels for groups of 4, 8 or 16 channels to as many, and banded ones for groups of one, whose pixels begin at
// multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kChannelsOfBlock = 64, kBytesOfPixel = 128;
constexpr std::int64_t kChannelsOfBands = 32;  // of a block
constexpr std::int64_t kPlanBytes = 32 * 104;  // kStepBytes of kernels/cuda/conv/depthwise/stages.cuh

bool result_is_w(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}

std::int64_t grouped_shared_bytes(const KernelConfig& config, const ConvProblem& p, std::int64_t stage_bytes) {
  const std::int64_t stages = config.algorithm.stages * stage_bytes;
  if (result_is_w(p)) return kPlanBytes + std::max<std::int64_t>(stages, cuda_conv_resources(config).part_bytes);
  const std::int64_t tap_bytes = cuda_grouped_tile(config.algorithm).channels == 16 ? 2048 : 1024;
  return kPlanBytes + stages + taps_of(p) * tap_bytes;
}

std::int64_t grouped_stage_bytes(const KernelConfig& config, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvAxis rows = cuda_conv_axis(p, 1), columns = cuda_conv_axis(p, 2);
  std::int64_t taps_h = rows.taps, taps_w = columns.taps, of_y = 0;
  if (result_is_w(p)) {
    taps_h = std::min<std::int64_t>(taps_h, tile.tap_rows);
    taps_w = std::min<std::int64_t>(taps_w, tile.taps);
    of_y = std::int64_t{tile.rows} * tile.columns;
  }
  return (((tile.rows - 1) * rows.pace + taps_h) * ((tile.columns - 1) * tile.pace + taps_w) + of_y) * kBytesOfPixel;
}

/// The most taps along either coordinate that meet a result, or that y's pixels add to.
std::int64_t taps_of_bands(const ConvProblem& p) {
  return std::max(cuda_conv_axis(p, 1).taps, cuda_conv_axis(p, 2).taps);
}

/// Why images are not whole in a tile of either tensor, or do not end up in the tile's planes.
std::optional<std::string> images_are_cut(const CudaGroupedTile& tile, const ConvProblem& p) {
  if (p.stride() != ConvSpatial{1, 1, 1} || p.dilation() != ConvSpatial{1, 1, 1} || p.in()[0] != 1 || p.filter_d != 1)
    return "a stride, dilation or outer coordinate, which whole images do not have";
  for (const std::size_t d : {1, 2}) {
    const std::int64_t pad = p.pad()[d], side = d == 1 ? tile.rows : tile.columns;
    if (p.out()[d] > side || p.in()[d] + pad % 2 > side || p.filter()[d] > tile.taps || pad / 2 * 2 >= tile.taps)
      return fmt::format("{} to {} pixels by {} taps, pad {}: a tile has {} pixels, and {} taps around it", p.in()[d],
                         p.out()[d], p.filter()[d], pad, side, tile.taps);
  }
  return {};
}

std::optional<std::string> bands_unsuited(const KernelConfig& config, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  if (p.unaligned || p.groups % 8 != 0)
    return fmt::format("{} groups, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.unaligned);
  for (const std::size_t d : {1, 2}) {
    const CudaConvAxis axis = cuda_conv_axis(p, d);
    if (axis.pace != 1) return fmt::format("results meet pixels {} apart, bands neighbours", axis.pace);
  }
  if (is_whole(config.algorithm)) return images_are_cut(tile, p);
  if (std::optional<std::string> said = cuda_maps_unsuited(p, tile.rows, tile.columns, tile.taps, tile.pace))
    return said;
  if (result_is_w(p)) return {};
  if (const std::int64_t taps = cuda_conv_axis(p, 0).taps; taps > 1)
    return fmt::format("{} taps along the outer coordinate meet a result, of bands one", taps);
  if (taps_of_bands(p) > tile.taps) return fmt::format("{} taps, the kernel's {}", taps_of_bands(p), tile.taps);
  return {};
}

std::optional<std::string> mapped_unsuited(const CudaGroupedTile& tile, const ConvProblem& p) {
  for (const std::size_t d : {1, 2}) {
    const CudaConvAxis axis = cuda_conv_axis(p, d);
    if (axis.pace != tile.pace)
      return fmt::format("results meet pixels {} apart, the kernel's {}", axis.pace, tile.pace);
    if (result_is_w(p)) continue;
    if (p.filter()[d] != tile.taps) return fmt::format("{} taps, the kernel's {}", p.filter()[d], tile.taps);
  }
  if (!result_is_w(p) && p.filter_d > 1)
    return fmt::format("{} taps along the outer coordinate, the kernel's 1", p.filter_d);
  if (p.direction == ConvDirection::backward_data && p.stride() != ConvSpatial{1, 1, 1})
    return "phases of a stride meet fewer taps than the kernel's";
  return cuda_maps_unsuited(p, tile.rows, tile.columns, tile.taps, tile.pace);
}

std::optional<std::string> grouped_unsuited(const KernelConfig& config, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  if (p.c != tile.channels || p.k != tile.channels)
    return fmt::format("c {} and k {} in a group, the kernel's {}", p.c, p.k, tile.channels);
  if (tile.channels == 1) return bands_unsuited(config, p);
  if (p.unaligned || p.groups * p.c % 8 != 0)
    return fmt::format("{} groups of {}, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.c, p.unaligned);
  if (const std::int64_t pace = cuda_conv_axis(p, 2).pace; pace != tile.pace)
    return fmt::format("results of a row meet pixels {} apart, the kernel's {}", pace, tile.pace);
  if (is_mapped(config.algorithm)) return mapped_unsuited(tile, p);
  const std::int64_t bytes = grouped_shared_bytes(config, p, grouped_stage_bytes(config, p));
  if (bytes > cuda_conv_resources(config).shared_bytes)
    return fmt::format("tiles and filters of {} taps take {} bytes of shared memory", taps_of(p), bytes);
  return {};
}

/// Of banded kernels that with the least taps that are enough, or the most.
bool grouped_is_needless(const KernelConfig& config, const ConvProblem& p) {
  if (!is_banded(config.algorithm)) return false;
  const std::span<const int> taps = cuda_banded_taps();
  const auto found = std::ranges::lower_bound(taps, taps_of_bands(p));
  return cuda_grouped_tile(config.algorithm).taps != (found == taps.end() ? taps.back() : *found);
}

double grouped_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec,
                       const ConvProblem& problem) {
  return cuda_grouped_work(config, spec, problem).seconds;
}

/// A unit's runs are a cluster. Microseconds of a step, and of all that a block does beside, as an H200 took them
/// (docs/log/2026-11-cuda-conv.md).
CudaConvRuns whole_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  ConvProblem together = p;
  together.batch = ceil_div(p.batch, std::int64_t{tile.images});
  CudaConvRuns w = cuda_conv_tiles(together, tile.rows, tile.columns);
  w.units = ceil_div(p.groups, kChannelsOfBands);
  w.runs = config.algorithm.cluster[0];
  w.shared_bytes = cuda_conv_resources(config).shared_bytes;
  const std::int64_t together_there = cuda_clusters_at_a_time(spec, w.runs, 1);
  const auto rounds = static_cast<double>(ceil_div(w.units, together_there));
  const auto steps = static_cast<double>(ceil_div(w.tiles, w.runs));
  const double taps = tile.taps, of_step = 0.25 + 0.135 * taps, of_block = 2.8 + 0.48 * taps, launch = 2.2;
  w.seconds = 1e-6 * (rounds * (steps * of_step + of_block) + launch);
  return w;
}

CudaConvRuns banded_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const bool weight = result_is_w(p);
  ConvProblem together = p;
  together.batch = ceil_div(p.batch, std::int64_t{tile.images});
  CudaConvRuns w = cuda_conv_tiles(together, tile.rows, tile.columns);
  w.units = ceil_div(p.groups, kChannelsOfBands);
  if (weight)
    w.units *=
        p.filter_d * ceil_div(p.filter_h, std::int64_t{tile.tap_rows}) * ceil_div(p.filter_w, std::int64_t{tile.taps});
  w.shared_bytes = facts.shared_bytes;
  cut_into_runs(w, spec, facts.blocks_per_sm);
  // Cycles of a block for a tile: as long as it waits for one thing after the other, or as its SM takes for those of
  // all its blocks; and for a run. Fitted to random layers, of which a half was kept for judging, on an H100
  // (docs/log/2026-11-cuda-conv.md).
  constexpr double kClock = 1.7e9;
  const double taps = tile.taps;
  const bool small = tile.images > 1;
  const double alone = weight ? (small                         ? 700 + 430 * taps
                                 : config.algorithm.stages > 1 ? 1900 + 86 * taps
                                                               : 2290 + 86 * taps)
                              : (small ? 1300 + 450 * taps : 3380 + 382 * taps);
  const double shared = weight || small ? 0 : (1160 + 192 * taps) * static_cast<double>(w.resident);
  const double cycles = std::max(alone, shared);
  const auto rounds = static_cast<double>(ceil_div(w.blocks(), spec.reference.sms * w.resident));
  const auto steps = static_cast<double>(ceil_div(w.tiles, w.runs));
  const double compute = rounds * (steps * cycles + (weight ? 1150 : 4800)) / kClock;
  const double memory = bytes_of(p) / (spec.reference.reached_bandwidth * spec.reference.bytes_per_second);
  constexpr double kApart = 1.9;  // 1: one waits for the other; infinity: the longer hides the other
  w.seconds =
      std::pow(std::pow(compute, kApart) + std::pow(memory, kApart), 1 / kApart) + 1e-6 * spec.reference.launch_us;
  if (weight)  // runs are added up by a launch of its own
    w.seconds += 3.8e-6 + 1e-6 * spec.reference.launch_us + static_cast<double>(w.blocks() * facts.part_bytes) / 1e12;
  return w;
}

CudaConvRuns mapped_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  ConvProblem together = p;
  together.batch = ceil_div(p.batch, std::int64_t{tile.images});
  CudaConvRuns w = cuda_conv_tiles(together, tile.rows, tile.columns);
  w.units = ceil_div(p.groups * p.c, kChannelsOfBlock);
  const bool weight = result_is_w(p);
  const int cluster = config.algorithm.cluster[0];
  if (weight)
    w.units *=
        p.filter_d * ceil_div(p.filter_h, std::int64_t{tile.tap_rows}) * ceil_div(p.filter_w, std::int64_t{tile.taps});
  w.shared_bytes = facts.shared_bytes;
  cut_into_runs(w, spec, facts.blocks_per_sm, cluster);
  // Cycles of an SM for a pixel of a tile, and beside them for a block's step and run. Found on an H200 and an H100
  // (docs/log/2026-11-cuda-conv.md).
  constexpr double kClock = 1.75e9, kOfStep = 600, kOfRun = 6000;
  const double of_pixel =
      weight ? (tile.channels >= 16 ? 11.0 * std::max(tile.channels / 16, 1) : 9) : (tile.channels == 16 ? 16 : 15);
  const auto resident = static_cast<double>(w.resident);
  const std::int64_t places =
      cluster > 1 ? cuda_clusters_at_a_time(spec, cluster, w.resident) * cluster : spec.reference.sms * w.resident;
  const auto rounds = static_cast<double>(ceil_div(w.blocks(), places));
  const auto steps = static_cast<double>(ceil_div(w.tiles, w.runs));
  const int pixels = tile.images * tile.rows * tile.columns;
  const double compute = rounds * steps * resident * (pixels * of_pixel + kOfStep) / kClock;
  const double memory = bytes_of(p) / (spec.reference.reached_bandwidth * spec.reference.bytes_per_second);
  w.seconds = std::max(compute, memory) + kOfRun / kClock + 1e-6 * spec.reference.launch_us;
  if (cluster > 1)  // runs are added up by clusters, and these by whichever is last
    w.seconds += 1e-6 * (w.runs > cluster ? spec.conv.join.clusters_us : spec.conv.join.cluster_us);
  else if (weight)  // runs are added up by a launch of its own
    w.seconds += 1e-6 * (spec.conv.join.runs_us + spec.reference.launch_us) +
                 static_cast<double>(w.blocks() * facts.part_bytes) / spec.conv.join.runs_bytes_per_second;
  return w;
}

}  // namespace

CudaConvRuns cuda_grouped_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  if (is_whole(config.algorithm)) return whole_work(config, spec, p);
  if (is_banded(config.algorithm)) return banded_work(config, spec, p);
  if (is_mapped(config.algorithm)) return mapped_work(config, spec, p);
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const int warps = config.algorithm.wave[0];
  const bool weight = result_is_w(p);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns);
  const std::int64_t taps = cuda_conv_axis(p, 1).taps * cuda_conv_axis(p, 2).taps;
  w.units = ceil_div(p.groups * p.c, kChannelsOfBlock);
  if (weight)
    w.units *=
        p.filter_d * ceil_div(p.filter_h, std::int64_t{tile.tap_rows}) * ceil_div(p.filter_w, std::int64_t{tile.taps});
  w.stage_bytes = grouped_stage_bytes(config, p);
  w.shared_bytes = grouped_shared_bytes(config, p, w.stage_bytes);
  cut_into_runs(w, spec, facts.blocks_per_sm);
  // Of a warp: a tap's address, load and products for sixteen pixels; the end of a tile; a dozen for 16 bytes copied;
  // and what it waits for copies and for the others, in instructions. Fitted on an H100.
  const double sixteens = tile.rows * tile.columns / 4.0 / warps;
  const double of_sixteen = weight ? 80 : static_cast<double>(taps) * (tile.channels == 4 ? 14 : 8) + 60;
  const double instructions =
      sixteens * of_sixteen + 12.0 * static_cast<double>(w.stage_bytes) / 16 / facts.threads + 1500;
  // Warps' instructions that an SM issues in a cycle.
  constexpr double kClock = 1.7e9, kOfWarp = 0.29, kMostIssued = 4.6;
  const double issued = std::min(kOfWarp * static_cast<double>(w.resident) * warps, kMostIssued);
  const double compute = w.steps() * instructions * warps / issued / kClock / spec.reference.sms * w.uneven;
  const double cached = w.steps() * static_cast<double>(w.stage_bytes) / (0.9 * spec.reference.bytes_per_second);
  const double memory = bytes_of(p) / (spec.reference.reached_bandwidth * spec.reference.bytes_per_second);
  w.seconds = std::max({compute, cached, memory}) + 1e-6 * spec.reference.launch_us;
  if (weight)  // runs are added up by a launch of its own
    w.seconds += 1e-6 * spec.reference.launch_us + static_cast<double>(w.blocks() * facts.part_bytes) / 1e12;
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_grouped() {
  static const CudaConvChoosing choosing{grouped_unsuited, grouped_is_needless, grouped_seconds};
  return choosing;
}

}  // namespace tilesmith
