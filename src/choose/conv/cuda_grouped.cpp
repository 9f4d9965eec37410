// Kernels for groups of 2, 4, 8 or 16 channels to as many, and banded ones for groups of one, whose pixels begin at
// multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "choose/overlapped.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kChannelsOfBlock = 64, kBytesOfPixel = 128;
constexpr std::int64_t kChannelsOfBands = 32;  // of a block

bool result_is_w(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}

std::int64_t grouped_shared_bytes(const KernelConfig& config, const ConvProblem& p, std::int64_t stage_bytes) {
  const std::int64_t stages = config.algorithm.stages * stage_bytes;
  if (result_is_w(p))
    return kCudaConvPlanBytes + std::max<std::int64_t>(stages, cuda_conv_resources(config).part_bytes);
  const std::int64_t tap_bytes = cuda_grouped_tile(config.algorithm).channels == 16 ? 2048 : 1024;
  return kCudaConvPlanBytes + stages + taps_of(p) * tap_bytes;
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

/// Why pixels of x are no four phases of places (kernels/cuda/conv/grouped/mapped_phases.cuh).
std::optional<std::string> phases_unsuited(const CudaGroupedTile& tile, const ConvProblem& p) {
  if (p.filter_d > 1 || p.stride()[0] > 1 || p.dilation()[0] > 1)
    return "taps, a stride or a dilation of the outer coordinate, which has no phases";
  for (const std::size_t d : {1, 2})
    if (p.filter()[d] != 3 || p.stride()[d] != 2 || p.dilation()[d] != 1 || p.pad()[d] % 2 == 0)
      return fmt::format("{} taps, stride {}, dilation {}, pad {}; the kernel's are 3, 2, 1 and odd", p.filter()[d],
                         p.stride()[d], p.dilation()[d], p.pad()[d]);
  return cuda_maps_unsuited(p, tile.rows, tile.columns, tile.taps, tile.pace);
}

std::optional<std::string> mapped_unsuited(const CudaGroupedTile& tile, const ConvProblem& p) {
  if (tile.in_phases) return phases_unsuited(tile, p);
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

bool grouped_may_suit(const ConvProblem& p) {
  return p.c == p.k;
}

std::optional<std::string> grouped_unsuited(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  if (!grouped_may_suit(p) || p.c != tile.channels)
    return fmt::format("c {} and k {} in a group, the kernel's {}", p.c, p.k, tile.channels);
  if (tile.channels == 1) return bands_unsuited(config, p);
  if (p.unaligned || p.groups * p.c % 8 != 0)
    return fmt::format("{} groups of {}, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.c, p.unaligned);
  if (const std::int64_t pace = cuda_conv_axis(p, 2).pace; pace != tile.pace)
    return fmt::format("results of a row meet pixels {} apart, the kernel's {}", pace, tile.pace);
  if (is_mapped(config.algorithm)) return mapped_unsuited(tile, p);
  const std::int64_t bytes = grouped_shared_bytes(config, p, grouped_stage_bytes(config, p));
  if (bytes > spec.shared_bytes_per_block)
    return fmt::format("tiles and filters of {} taps take {} bytes of shared memory", taps_of(p), bytes);
  return {};
}

/// Those for other channels; of banded kernels all but that with the least taps that are enough, or the most.
bool grouped_is_needless(const KernelConfig& config, const ConvProblem& p) {
  if (cuda_grouped_tile(config.algorithm).channels != p.c) return true;
  if (!is_banded(config.algorithm)) return false;
  const std::span<const int> taps = cuda_banded_taps();
  const auto found = std::ranges::lower_bound(taps, taps_of_bands(p));
  return cuda_grouped_tile(config.algorithm).taps != (found == taps.end() ? taps.back() : *found);
}

double grouped_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec,
                       const ConvProblem& problem) {
  return cuda_grouped_work(config, spec, problem).seconds;
}

/// A unit's runs are a cluster.
CudaConvRuns whole_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns, tile.images);
  w.units = ceil_div(p.groups, kChannelsOfBands);
  w.runs = config.algorithm.cluster[0];
  w.shared_bytes = cuda_conv_resources(config).shared_bytes;
  const std::int64_t together_there = cuda_clusters_at_a_time(spec, w.runs, 1);
  const auto rounds = static_cast<double>(ceil_div(w.units, together_there));
  const CudaConvWholeModel& model = spec.conv.models.whole;
  w.seconds = 1e-6 * (rounds * (w.steps_of_run() * model.step_us.of(tile.taps) + model.block_us.of(tile.taps)) +
                      model.launch_us);
  return w;
}

CudaConvRuns banded_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const bool weight = result_is_w(p);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns, tile.images);
  w.units = ceil_div(p.groups, kChannelsOfBands);
  if (weight) w.units *= cuda_filter_parts(p, tile.tap_rows, tile.taps);
  w.shared_bytes = facts.shared_bytes;
  cut_into_runs(w, spec, facts.blocks_per_sm);
  // A tile takes a block as long as it waits for one thing after the other, or as its SM takes for those of all its
  // blocks.
  const CudaConvBandsModel& model = spec.conv.models.bands;
  const bool small = tile.images > 1;
  const CudaConvOfTaps& alone = weight ? (small                         ? model.small_weight
                                          : config.algorithm.stages > 1 ? model.staged_weight
                                                                        : model.weight)
                                       : (small ? model.small_data : model.data);
  const double shared = weight || small ? 0 : model.shared_data.of(tile.taps) * static_cast<double>(w.resident);
  const double cycles = std::max(alone.of(tile.taps), shared);
  const double compute = 1e-9 * w.rounds *
                         (w.steps_of_run() * cycles + (weight ? model.weight_run_cycles : model.data_run_cycles)) /
                         model.clock_ghz;
  w.seconds =
      overlapped(compute, spec.reference.memory_seconds(bytes_of(p)), model.overlap) + spec.reference.launch_seconds();
  if (weight) w.seconds += runs_join_seconds(spec, spec.conv.join.bands_us, w.blocks() * facts.part_bytes);
  return w;
}

/// What all steps take of the chip where a warp has so many instructions in each; few warps issue less than an SM
/// could.
double issue_seconds(const CudaConvRuns& w, double instructions, int warps, const CudaSpec& spec) {
  const CudaConvGroupsModel& model = spec.conv.models.groups;
  const double issued = std::min(model.issued_of_warp * static_cast<double>(w.resident) * warps, model.issued);
  return 1e-9 * w.steps() * instructions * warps / issued / model.clock_ghz / spec.reference.sms * w.uneven;
}

/// Tiles of places, of which a warp has sixteen at a time: products of all taps, and the end of four results.
CudaConvRuns phases_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const int warps = config.algorithm.wave[0];
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns, tile.images);
  w.tiles /= std::int64_t{w.phases[1]} * w.phases[2];  // a tile has all
  w.phases[1] = w.phases[2] = 1;
  w.units = ceil_div(p.groups * p.c, kChannelsOfBlock);
  w.shared_bytes = facts.shared_bytes;
  cut_into_runs(w, spec, facts.blocks_per_sm);
  const CudaConvMapsModel& model = spec.conv.models.maps;
  const double sixteens = tile.rows * tile.columns / 4.0 / warps;
  const double of_sixteen = static_cast<double>(taps_of(p) * std::max(tile.channels / 16, 1)) * 8 + 4 * 60;
  const double compute = issue_seconds(w, sixteens * of_sixteen + model.step_cycles, warps, spec);
  w.seconds = std::max(compute, spec.reference.memory_seconds(bytes_of(p))) +
              1e-9 * w.rounds * model.run_cycles / model.clock_ghz + spec.reference.launch_seconds();
  return w;
}

CudaConvRuns mapped_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns, tile.images);
  w.units = ceil_div(p.groups * p.c, kChannelsOfBlock);
  const bool weight = result_is_w(p);
  const int cluster = config.algorithm.cluster[0];
  if (weight) w.units *= cuda_filter_parts(p, tile.tap_rows, tile.taps);
  w.shared_bytes = facts.shared_bytes;
  cut_into_runs(w, spec, facts.blocks_per_sm, cluster);
  const CudaConvMapsModel& model = spec.conv.models.maps;
  const int sixteens = tile.channels / 16;
  const double of_weight_pixel = sixteens > 0 ? model.weight_pixel_cycles_of_16 * sixteens : model.weight_pixel_cycles;
  const double of_data_pixel = tile.channels == 16 ? model.pixel_cycles_of_16 : model.pixel_cycles;
  const int pixels = tile.images * tile.rows * tile.columns;
  const double of_step = pixels * (weight ? of_weight_pixel : of_data_pixel) + model.step_cycles;
  const double second = 1e-9 / model.clock_ghz;  // of a cycle
  const double compute = second * w.rounds * w.steps_of_run() * static_cast<double>(w.resident) * of_step;
  w.seconds = std::max(compute, spec.reference.memory_seconds(bytes_of(p))) + second * w.rounds * model.run_cycles +
              spec.reference.launch_seconds();
  if (cluster > 1)  // runs are added up by clusters, and these by whichever is last
    w.seconds += 1e-6 * (w.runs > cluster ? spec.conv.join.clusters_us : spec.conv.join.cluster_us);
  else if (weight)
    w.seconds += runs_join_seconds(spec, 0, w.blocks() * facts.part_bytes);
  return w;
}

}  // namespace

CudaConvRuns cuda_grouped_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  if (is_whole(config.algorithm)) return whole_work(config, spec, p);
  if (is_banded(config.algorithm)) return banded_work(config, spec, p);
  if (cuda_grouped_tile(config.algorithm).in_phases) return phases_work(config, spec, p);
  if (is_mapped(config.algorithm)) return mapped_work(config, spec, p);
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const int warps = config.algorithm.wave[0];
  const bool weight = result_is_w(p);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns);
  const std::int64_t taps = cuda_conv_axis(p, 1).taps * cuda_conv_axis(p, 2).taps;
  w.units = ceil_div(p.groups * p.c, kChannelsOfBlock);
  if (weight) w.units *= cuda_filter_parts(p, tile.tap_rows, tile.taps);
  w.stage_bytes = grouped_stage_bytes(config, p);
  w.shared_bytes = grouped_shared_bytes(config, p, w.stage_bytes);
  cut_into_runs(w, spec, facts.blocks_per_sm);
  // Of a warp: a tap's address, load and products for sixteen pixels; the end of a tile; a dozen for 16 bytes copied;
  // and what it waits for copies and for the others, in instructions.
  const CudaConvGroupsModel& model = spec.conv.models.groups;
  const double sixteens = tile.rows * tile.columns / 4.0 / warps;
  const double of_sixteen = weight ? 80 : static_cast<double>(taps) * 8 + 60;
  const double instructions =
      sixteens * of_sixteen + 12.0 * static_cast<double>(w.stage_bytes) / 16 / facts.threads + model.step_instructions;
  const double compute = issue_seconds(w, instructions, warps, spec);
  const double cached =
      w.steps() * static_cast<double>(w.stage_bytes) / (model.cached * spec.reference.bytes_per_second);
  w.seconds = std::max({compute, cached, spec.reference.memory_seconds(bytes_of(p))}) + spec.reference.launch_seconds();
  w.seconds += weight ? runs_join_seconds(spec, spec.conv.join.runs_us, w.blocks() * facts.part_bytes)
                      : 1e-9 * model.data_run_cycles / model.clock_ghz;
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_grouped() {
  static const CudaConvChoosing choosing{grouped_may_suit, grouped_unsuited, grouped_is_needless, grouped_seconds};
  return choosing;
}

}  // namespace tilesmith
