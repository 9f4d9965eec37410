// Kernels for groups of 4, 8 or 16 channels to as many, whose pixels begin at multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kChannelsOfBlock = 64, kBytesOfPixel = 128;
constexpr std::int64_t kPlanBytes = 32 * 104;  // kStepBytes of kernels/cuda/conv/depthwise/stages.cuh

bool result_is_w(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}

std::int64_t grouped_shared_bytes(const KernelConfig& config, const ConvProblem& p, std::int64_t stage_bytes) {
  const std::int64_t stages = config.algorithm.stages * stage_bytes;
  if (result_is_w(p)) return kPlanBytes + std::max<std::int64_t>(stages, cuda_conv_resources(config).part_bytes);
  const std::int64_t tap_bytes = cuda_grouped_tile(config.algorithm).channels == 8 ? 1024 : 2048;
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

std::optional<std::string> grouped_unsuited(const KernelConfig& config, const ConvProblem& p) {
  const CudaGroupedTile tile = cuda_grouped_tile(config.algorithm);
  if (p.c != tile.channels || p.k != tile.channels)
    return fmt::format("c {} and k {} in a group, the kernel's {}", p.c, p.k, tile.channels);
  if (p.unaligned || p.groups * p.c % 8 != 0)
    return fmt::format("{} groups of {}, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.c, p.unaligned);
  if (const std::int64_t pace = cuda_conv_axis(p, 2).pace; pace != tile.pace)
    return fmt::format("results of a row meet pixels {} apart, the kernel's {}", pace, tile.pace);
  const std::int64_t bytes = grouped_shared_bytes(config, p, grouped_stage_bytes(config, p));
  if (bytes > cuda_conv_resources(config).shared_bytes)
    return fmt::format("tiles and filters of {} taps take {} bytes of shared memory", taps_of(p), bytes);
  return {};
}

bool grouped_is_needless(const KernelConfig&, const ConvProblem&) {
  return false;
}

double grouped_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec,
                       const ConvProblem& problem) {
  return cuda_grouped_work(config, spec, problem).seconds;
}

}  // namespace

CudaConvRuns cuda_grouped_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
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
