#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/gemm/cuda_model.hpp"
#include "choose/overlapped.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_window.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "kernels/cuda/conv/hopper/abi.h"
#include "problem/conv/problem.hpp"
#include "problem/conv/slices.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kSectorBits = 256;

/// Channels of a step: 128 bytes.
std::int64_t step_channels(const ConvProblem& p) {
  return 1024 / bits_of(p.data_type);
}
/// Steps of so many taps, block by block of the channels that a step has of a tap; the last may be filled up.
std::int64_t steps_of(const ConvProblem& p, std::int64_t taps, int step_taps) {
  return ceil_div(taps * ceil_div(read_channels(p), step_channels(p) / step_taps), std::int64_t{step_taps});
}
/// Backward weight: tiles of which channels are missing take a little longer, so of tiles alike those that are cut less
/// go first. 512-96 on 7x7 took 18.9 us in tiles of 128 x 64 and 14.3 in tiles of 64 x 128 (H100).
double cut_cost_of_weight(std::int64_t channels, int of_tile, const CudaConvWeightModel& model) {
  return channels % of_tile == 0 ? 1 : 1 + model.cut / static_cast<double>(ceil_div(channels, std::int64_t{of_tile}));
}
/// Forward and backward data: by the share of channels that tiles have and the result has not.
double cut_cost(std::int64_t channels, int of_tile, const CudaSpec& spec) {
  const std::int64_t all = ceil_div(channels, std::int64_t{of_tile}) * of_tile;
  return 1 + spec.conv.rows.cut * static_cast<double>(all - channels) / static_cast<double>(all);
}

/// Phases of backward data.
std::int64_t phases_of(const ConvProblem& p) {
  std::int64_t phases = 1;
  for (std::size_t d = 0; d < 3; ++d) phases *= std::min(p.stride()[d], p.in()[d]);
  return phases;
}

/// Elements of the result that are written together.
std::int64_t widest_store(const ConvProblem& p) {
  const std::int64_t wide = 128 / bits_of(p.type_out), written = written_channels(p);
  if (p.direction != ConvDirection::forward) return wide;
  return written % wide == 0 ? wide : written % 2 == 0 ? 2 : 1;
}

/// Whether channels are copied 16 bytes at a time.
bool window_may_suit(const ConvProblem& p) {
  const bool forward = p.direction == ConvDirection::forward;
  return !p.unaligned && read_channels(p) % (step_channels(p) / 8) == 0 && (forward || written_channels(p) % 8 == 0);
}

std::optional<std::string> window_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& problem) {
  const auto& s = std::get<ConvSignature>(config.signature);
  if (config.algorithm.vector[2] > widest_store(problem))
    return fmt::format("writes {} elements; {} channels", config.algorithm.vector[2], written_channels(problem));
  if (problem.groups > 1 && problem.direction == ConvDirection::backward_data && phases_of(problem) > 1) {
    const std::int64_t of_box =
        8L * cuda_gemm_resources(gemm_of_window(config)).slab_row_bytes / bits_of(problem.type_out);
    if (problem.c % of_box != 0)
      return fmt::format("{} channels of a box would reach the next group's; groups {}, c {}", of_box, problem.groups,
                         problem.c);
  }
  return cuda_window_obstacle(problem, s.spatial_dims, window_step_taps(config.algorithm));
}

/// Whether steps of some taps are no fewer, nor columns of backward weight.
bool step_taps_are_needless(const KernelConfig& config, const ConvProblem& p) {
  const int taps = window_step_taps(config.algorithm);
  if (taps == 1) return false;
  const CudaGemmShape fewer = cuda_window_shape(p, taps), shape = cuda_window_shape(p, taps / 2);
  return fewer.n * fewer.k >= shape.n * shape.k;
}

bool window_is_needless(const KernelConfig& config, const ConvProblem& problem) {
  return config.algorithm.vector[2] != widest_store(problem) || step_taps_are_needless(config, problem) ||
         std::get<ConvSignature>(config.signature).spatial_dims !=
             cuda_conv_dimensions(images_of_slices(problem).value_or(problem));
}

/// Of the tiles of a phase.
std::int64_t tiles_of(const KernelConfig& config, const ConvProblem& p, const CudaConvPhase& phase) {
  const auto& tile = config.algorithm.tile;
  return ceil_div(phase.rows, std::int64_t{tile[0]}) * ceil_div(p.c, std::int64_t{tile[1]}) * p.groups;
}

/// Whether rows of channels lie in a sector more than they fill, or of a lone tap fill no more than one.
bool straddles(const ConvProblem& p, int step_taps) {
  const std::int64_t bits = read_channels(p) * bits_of(p.data_type);
  return bits % kSectorBits != 0 || (step_taps == 1 && bits == kSectorBits);
}

/// What a row of 128 bytes of so many taps takes, and more of each where it lies in a sector more.
double row_ns(const CudaConvRows& rows, double ns, int taps, double more) {
  return ns + (taps == 1 ? more : taps * (rows.shared_ns + more));
}

/// Of a tile of forward and backward data. The table's figures are of products; the rows of pixels and of filters that
/// a step brings take their time too, and more where channels are no whole 32 bytes, so that rows lie in a sector more,
/// or no more than one. Filters, which all SMs ask for, take longer than pixels. Where few blocks share the L2 cache,
/// rows take less. (Fitted to 750 timings of 300 drawn layers, docs/log/2026-11-cuda-conv.md.)
double step_us(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p,
               std::int64_t tiles) {
  const CudaConvRows& rows = spec.conv.rows;
  const bool forward = p.direction == ConvDirection::forward;
  const int taps = window_step_taps(config.algorithm);
  const auto& tile = config.algorithm.tile;
  const bool more = straddles(p, taps);
  const double pixels =
      tile[0] * row_ns(rows, rows.ns, taps, more ? (forward ? rows.straddle_ns : rows.data_straddle_ns) : 0);
  double filters = 0;
  if (forward) {
    filters = tile[1] * row_ns(rows, rows.filter_ns, taps, more ? rows.filter_straddle_ns : 0);
  } else {
    // Filters of backward data come in boxes of 64 channels of the result, by as many of what is read in all.
    const bool within = p.c * bits_of(p.data_type) % kSectorBits != 0;
    filters = static_cast<double>(ceil_div(std::int64_t{tile[1]}, std::int64_t{64}) * 64) *
              (rows.filter_ns + (within ? rows.filter_straddle_ns : 0));
  }
  const double busy = std::min(1.0, static_cast<double>(tiles) / rows.enough_sms);
  return std::max(row.step_us, 1e-3 * std::sqrt(busy) * (pixels + filters));
}

/// The same, or one of `splits` parts of it: a kernel that may cut leaves and reads even the only one.
double window_item_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                           const ConvProblem& p, std::int64_t steps, int splits, std::int64_t tiles) {
  const double step = step_us(config, row, spec, p, tiles);
  const double item = 1e-6 * (static_cast<double>(ceil_div(steps, std::int64_t{splits})) * step + row.end_us);
  if (!config.algorithm.split_k) return item;
  return item + 1e-6 * spec.gemm.join_us +
         splits * static_cast<double>(cuda_conv_resources(config).part_bytes) / spec.gemm.join_bytes_per_second;
}

/// Backward data: a tile that is computed transposed leaves in boxes of fewer than 64 pixels where its pixels are no
/// multiple of that, and each box more takes its time. 1x1 256-512 on 56x56 with a stride of 2 took 155 us in tiles of
/// 112 x 256, which are 28 boxes, 126 in tiles of 96 x 256, 12 boxes, and 101 in tiles of 128 x 256, 8 boxes (H200).
double boxes_seconds(const KernelConfig& config, const CudaSpec& spec) {
  constexpr std::int64_t kWhole = 64;
  const auto& tile = config.algorithm.tile;
  const auto columns = ceil_div(std::int64_t{tile[1]}, kWhole);
  const auto boxes =
      ceil_div(std::int64_t{tile[0]}, std::int64_t{cuda_gemm_resources(gemm_of_window(config)).box_rows});
  return 1e-6 * spec.conv.box_us * static_cast<double>(columns * (boxes - ceil_div(std::int64_t{tile[0]}, kWhole)));
}

/// Of the block that has most to do. Blocks take tiles by turns, those of the phase with most taps first.
double phases_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p) {
  const std::int64_t places = cuda_gemm_places(gemm_of_window(config), spec);
  const double store = boxes_seconds(config, spec) + 1e-6 * spec.conv.models.window.data_tile_us;
  const std::vector<CudaConvPhase> phases = cuda_conv_phases(p, window_step_taps(config.algorithm));
  std::int64_t all = 0;
  for (const CudaConvPhase& phase : phases) all += tiles_of(config, p, phase);
  double seconds = 0;
  std::int64_t before = 0;
  for (const CudaConvPhase& phase : phases) {
    const std::int64_t tiles = tiles_of(config, p, phase);
    const std::int64_t own = ceil_div(before + tiles, places) - ceil_div(before, places);
    seconds += static_cast<double>(own) * (window_item_seconds(config, row, spec, p, phase.steps, 1, all) + store);
    before += tiles;
  }
  return seconds;
}

/// Bytes of backward weight: of x, the pixels that some tap meets.
double met_bytes(const ConvProblem& p) {
  double share = 1;
  for (std::size_t d = 0; d < 3; ++d)
    share *= std::min(1.0, static_cast<double>(p.out()[d] * p.filter()[d]) / static_cast<double>(p.in()[d]));
  return bytes_of(p) - (1 - share) * static_cast<double>(pixels_of_x(p) * p.groups * p.c) * bits_of(p.data_type) / 8;
}

/// Backward weight: of a lone tap pixels of fewer than 32 bytes, or of 48, of which most of a row of 128 is filled with
/// zeros, take as long as those of other directions that lie in a sector more. Groups of 8 by 5x5 taps, stride 2, 48x48
/// took 18.3 us in tiles of 64 x 64, a step 0.34; 24-64 by 3x3, stride 2, on 142x142, 87 images, 268 us in tiles of 64
/// x 192 (H200).
double narrow_step_us(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const std::int64_t bits = p.c * bits_of(p.data_type);
  if (window_step_taps(config.algorithm) > 1 || bits % kSectorBits == 0 || bits > 2 * kSectorBits) return 0;
  const auto& tile = config.algorithm.tile;
  return 1e-3 * (spec.conv.rows.ns + spec.conv.rows.filter_straddle_ns) * (tile[0] + tile[1]);
}

/// Backward weight: rows of pixels take their time as those of other directions do, in whatever block of a cluster asks
/// for them, and more where they lie in a sector more. 216-8 by 3x3x3 on 8x30x30 took 0.40 us a step of 64 x 64, 0.55
/// of 64 x 128, 0.9 of 64 x 256 (H200).
double weight_step_us(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p) {
  const CudaConvRows& rows = spec.conv.rows;
  const Algorithm& a = config.algorithm;
  const auto row_of = [&](std::int64_t channels, int taps) {
    return row_ns(rows, rows.ns, taps,
                  p.groups * channels * bits_of(p.data_type) % kSectorBits != 0 ? rows.data_straddle_ns : 0);
  };
  const double copied =
      a.tile[0] * row_of(p.k, 1) / a.cluster[1] + a.tile[1] * row_of(p.c, window_step_taps(a)) / a.cluster[0];
  return std::max({row.step_us, 1e-3 * copied, narrow_step_us(config, spec, p)});
}

/// Backward weight in so many blocks, which have equal shares of all tiles. Where a tile has a whole number of blocks,
/// those of all tiles pass over the same pixels at the same time, which then come from memory once; else a step takes
/// longer. Of one tap a tile that is as high or as wide as the result is a little faster than others.
double weight_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p,
                      std::int64_t tiles, std::int64_t blocks) {
  const CudaConvWeightModel& model = spec.conv.models.weight;
  const CudaGemmShape shape = cuda_window_shape(p, window_step_taps(config.algorithm));
  const double steps = static_cast<double>(shape.k / step_channels(p));
  const double of_tile = static_cast<double>(blocks) / static_cast<double>(tiles);
  const bool whole = taps_of(p) == 1 && (shape.m <= config.algorithm.tile[0] || shape.n <= config.algorithm.tile[1]);
  const double step = weight_step_us(config, row, spec, p) * (blocks % tiles == 0 ? 1 : model.scattered) *
                      (whole ? model.whole : 1) * cut_cost_of_weight(shape.m, config.algorithm.tile[0], model);
  const double compute = 1e-6 * (steps / of_tile * step + row.end_us * std::max(1 / of_tile, model.least_end));
  const double memory = spec.reference.memory_seconds(met_bytes(p));
  double seconds = spec.reference.launch_seconds() + std::hypot(compute, memory);  // neither hides the other whole
  if (blocks == tiles) return seconds;
  // A part is left, and those of a tile are read.
  const double parts =
      2 + (of_tile <= TS_CONV_PART_GROUPS ? of_tile : TS_CONV_PART_GROUPS + of_tile / TS_CONV_PART_GROUPS);
  return seconds + 1e-6 * spec.conv.join.stream_k_us +
         parts * static_cast<double>(cuda_conv_resources(config).part_bytes) / spec.gemm.join_bytes_per_second;
}

/// Backward weight whose sums are split: as many parts of each tile as the chip runs at a time, of a few steps each.
CudaGemmWork split_weight_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  constexpr std::int64_t kFewestSteps = 4;
  const KernelConfig gemm = gemm_of_window(config);
  const CudaGemmShape shape = cuda_window_shape(p, window_step_taps(config.algorithm));
  const std::int64_t cluster = std::int64_t{config.algorithm.cluster[0]} * config.algorithm.cluster[1];
  const std::int64_t tiles = cuda_gemm_tiles(gemm, shape), clusters = tiles / cluster;
  const std::int64_t at_a_time =
      cluster == 1 ? cuda_gemm_places(gemm, spec)
                   : cuda_gemm_clusters(static_cast<int>(cluster), cuda_gemm_resources(gemm).blocks_per_sm, spec);
  const std::int64_t most = std::max<std::int64_t>(shape.k / step_channels(p) / kFewestSteps, 1);
  CudaGemmWork work;
  work.splits = static_cast<int>(std::clamp<std::int64_t>(at_a_time / clusters, 1, most));
  work.items = work.places = tiles * work.splits;
  work.blocks = std::min(clusters * work.splits, at_a_time) * cluster;
  return work;
}

/// Pixels come from memory once, and from the L2 cache once for each cluster that meets them; what takes longer hides
/// the rest in part. Then parts are left and added.
double split_weight_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                            const ConvProblem& p) {
  const CudaConvWeightModel& model = spec.conv.models.weight;
  const Algorithm& a = config.algorithm;
  const CudaGemmWork work = split_weight_work(config, spec, p);
  const CudaGemmShape shape = cuda_window_shape(p, window_step_taps(config.algorithm));
  const auto steps = static_cast<double>(ceil_div(shape.k / step_channels(p), std::int64_t{work.splits}));
  const auto rounds = static_cast<double>(ceil_div(work.items, work.blocks));
  const double step = weight_step_us(config, row, spec, p);
  const double compute = 1e-6 * rounds * (steps * step + row.end_us);
  const double memory = spec.reference.memory_seconds(met_bytes(p));
  // Shorter rows of x as in step_us().
  const CudaConvRows& rows = spec.conv.rows;
  const int taps = window_step_taps(a);
  const double beside = rows.shared_ns + (straddles(p, taps) ? rows.data_straddle_ns : 0);
  const double of_x = 1 + (taps == 1 ? 0 : taps * beside / rows.ns);
  const double columns =
      static_cast<double>(a.tile[0]) / a.cluster[1] + (of_x - 1 + 1.0 / a.cluster[0]) * static_cast<double>(a.tile[1]);
  const double cached = static_cast<double>(work.items) * steps * columns * 128 / spec.conv.cache_bytes_per_second;
  const double parts =
      static_cast<double>(work.places * cuda_conv_resources(config).part_bytes) / spec.conv.join.split_bytes_per_second;
  return spec.reference.launch_seconds() +
         overlapped(overlapped(memory, cached, model.cache_overlap), compute, model.step_overlap) + parts +
         1e-6 * spec.conv.join.split_us;
}

double work_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                    const ConvProblem& problem) {
  if (config.algorithm.split_k && problem.direction == ConvDirection::backward_weight)
    return split_weight_seconds(config, row, spec, problem);
  if (problem.direction == ConvDirection::backward_weight) {
    const CudaGemmWork work = cuda_window_work(config, &row, spec, problem);
    return weight_seconds(config, row, spec, problem, work.items, work.blocks);
  }
  const CudaGemmShape shape = cuda_window_shape(problem, window_step_taps(config.algorithm));
  double seconds = cut_cost(shape.n, config.algorithm.tile[1], spec);
  if (problem.direction == ConvDirection::backward_data) {
    seconds *= phases_seconds(config, row, spec, problem);
  } else {
    const CudaGemmWork work = cuda_window_work(config, &row, spec, problem);
    const std::int64_t places = cuda_gemm_places(gemm_of_window(config), spec);
    seconds *= static_cast<double>(ceil_div(work.items, places));
    seconds *=
        window_item_seconds(config, row, spec, problem, shape.k / step_channels(problem), work.splits, work.items);
  }
  // Neither hides the other whole.
  return spec.reference.launch_seconds() + std::hypot(seconds, spec.reference.memory_seconds(bytes_of(problem)));
}

double window_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                      const ConvProblem& problem) {
  const CudaConvWindowModel& model = spec.conv.models.window;
  const bool weight = problem.direction == ConvDirection::backward_weight;
  return 1e-6 * (weight ? model.weight_begin_us : model.begin_us) + work_seconds(config, row, spec, problem);
}

/// Backward data, one coordinate of a phase: pixels `first` + stride * j of x. Tap t meets them from pixel
/// (first + pad - t * dilation) / stride + j of y, where that is a whole number (kernels/cuda/conv/phases.cuh).
void fill_in_phase(const ConvProblem& p, std::size_t d, std::int64_t first, CudaConvPhase& phase) {
  const std::int64_t stride = p.stride()[d], dilation = p.dilation()[d], common = std::gcd(stride, dilation);
  const std::int64_t tap_step = stride / common, pixel_step = dilation / common;
  CudaConvWindow& w = phase.windows[d];
  w = {};
  w.pixels = p.out()[d];
  w.places = ceil_div(p.in()[d] - first, stride);
  w.tap_step = -pixel_step;
  std::int64_t tap = 0;
  while (tap < std::min(p.filter()[d], tap_step) && (first + p.pad()[d] - tap * dilation) % stride != 0) ++tap;
  w.taps = tap < std::min(p.filter()[d], tap_step) ? ceil_div(p.filter()[d] - tap, tap_step) : 0;
  phase.first[d] = first;
  phase.filter_tap[d] = tap;
  phase.filter_step[d] = tap_step;
  if (w.taps == 0) return;
  w.offset = (w.taps - 1) * pixel_step;
  w.lower = (first + p.pad()[d] - tap * dilation) / stride - w.offset;
}

}  // namespace

std::array<CudaConvWindow, 3> cuda_conv_windows(const ConvProblem& p) {
  std::array<CudaConvWindow, 3> windows;
  for (std::size_t d = 0; d < 3; ++d)
    windows[d] = {.pixels = p.in()[d],
                  .places = p.out()[d],
                  .lower = -p.pad()[d],
                  .step = p.stride()[d],
                  .taps = p.filter()[d],
                  .tap_step = p.dilation()[d]};
  return windows;
}

std::vector<CudaConvPhase> cuda_conv_phases(const ConvProblem& p, int step_taps) {
  std::array<std::int64_t, 3> phases{};
  for (std::size_t d = 0; d < 3; ++d) phases[d] = std::min(p.stride()[d], p.in()[d]);
  std::vector<CudaConvPhase> out;
  out.reserve(static_cast<std::size_t>(phases[0] * phases[1] * phases[2]));
  CudaConvPhase phase;  // what coordinates have in common is filled in once
  for (std::int64_t slice = 0; slice < phases[0]; ++slice) {
    fill_in_phase(p, 0, slice, phase);
    for (std::int64_t row = 0; row < phases[1]; ++row) {
      fill_in_phase(p, 1, row, phase);
      for (std::int64_t column = 0; column < phases[2]; ++column) {
        fill_in_phase(p, 2, column, phase);
        phase.taps = 1;
        phase.rows = p.batch;
        for (const CudaConvWindow& w : phase.windows) {
          phase.taps *= w.taps;
          phase.rows *= w.places;
        }
        phase.steps = std::max<std::int64_t>(steps_of(p, phase.taps, step_taps), 1);
        out.push_back(phase);
      }
    }
  }
  std::ranges::stable_sort(out, std::greater{}, &CudaConvPhase::steps);
  return out;
}

CudaGemmShape cuda_window_shape(const ConvProblem& p, int step_taps) {
  const std::int64_t step = step_channels(p);
  const auto whole = [](std::int64_t value, std::int64_t of) { return ceil_div(value, of) * of; };
  CudaGemmShape shape{.may_place = false};
  shape.m = p.direction == ConvDirection::forward ? pixels_of_y(p) : pixels_of_x(p);
  shape.n = written_channels(p);
  shape.k = steps_of(p, taps_of(p), step_taps) * step;
  shape.batch = p.groups;
  if (p.direction == ConvDirection::backward_weight) {
    shape.m = p.k;
    shape.n = taps_of(p) * whole(p.c, step / step_taps);
    shape.k = whole(pixels_of_y(p), step);
  }
  return shape;
}

CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  return cuda_window_work(config, cuda_conv_row(config, spec), spec, problem);
}

CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaGemmTile* row, const CudaSpec& spec,
                              const ConvProblem& problem) {
  const KernelConfig gemm = gemm_of_window(config);
  const CudaGemmShape shape = cuda_window_shape(problem, window_step_taps(config.algorithm));
  CudaGemmWork work = cuda_gemm_work(gemm, row, spec, shape);
  work.b_first = work.late_launch_dependents = false;  // found for GEMM's copies
  const std::int64_t places = cuda_gemm_places(gemm, spec);
  if (problem.direction == ConvDirection::backward_data) {
    work.items = 0;
    for (const CudaConvPhase& phase : cuda_conv_phases(problem)) work.items += tiles_of(config, problem, phase);
    work.blocks = std::min(work.items, places);
  } else if (config.algorithm.split_k && problem.direction == ConvDirection::backward_weight) {
    work = split_weight_work(config, spec, problem);
  } else if (problem.direction == ConvDirection::backward_weight) {
    // As many parts as fill the chip, since many are added in two rounds; of a few steps each. Or a whole number for
    // each tile.
    constexpr std::int64_t kFewestSteps = 4;
    const std::int64_t steps = shape.k / step_channels(problem);
    work.blocks = std::min(places, std::max(work.items * steps / kFewestSteps, std::min(work.items, places)));
    if (row != nullptr && work.items <= work.blocks) {
      const std::int64_t whole = work.blocks / work.items * work.items;
      if (weight_seconds(config, *row, spec, problem, work.items, whole) <=
          weight_seconds(config, *row, spec, problem, work.items, work.blocks))
        work.blocks = whole;
    }
    work.places = 2 * work.blocks;
    work.counters =
        std::min(2 * work.blocks, work.items) * cuda_gemm_resources(gemm).counters * (1 + TS_CONV_PART_GROUPS);
  }
  return work;
}

std::optional<std::string> cuda_window_obstacle(const ConvProblem& p, int spatial_dims, int step_taps) {
  constexpr std::int64_t kMostSteps = 8;
  constexpr std::array<std::int64_t, 3> kMostOffset{65535, 255, 31};  // of a map of one, two and three coordinates
  constexpr std::array<std::int64_t, 3> kCorner{1 << 15, 1 << 7, 1 << 4};
  const bool data = p.direction == ConvDirection::backward_data;
  const std::int64_t read = read_channels(p), step = step_channels(p);
  if (!window_may_suit(p))
    return fmt::format("copies are of 16 bytes; c {}, k {}, unaligned {}", p.c, p.k, p.unaligned);
  // Backward weight may read the next group's channels: what becomes of them is not stored.
  const std::int64_t of_tap = step / step_taps;
  if (p.groups > 1 && p.direction != ConvDirection::backward_weight && read % of_tap != 0)
    return fmt::format("{} channels of a tap would reach the next group's; groups {}, c {}, k {}", of_tap, p.groups,
                       p.c, p.k);
  if (p.batch == 0) return "no images";
  const auto of_dims = static_cast<std::size_t>(spatial_dims - 1);
  const auto obstacle = [&](const std::array<CudaConvWindow, 3>& windows) -> std::optional<std::string> {
    for (const CudaConvWindow& w : windows)
      if (w.step > kMostSteps || w.reach() >= kMostOffset[of_dims] || w.lower < -kCorner[of_dims] ||
          w.lower >= kCorner[of_dims] || w.upper() < -kCorner[of_dims] || w.upper() >= kCorner[of_dims])
        return fmt::format(
            "windows of {} coordinates: steps {} of at most {}, offsets {} below {}, from {} to {} within {}",
            spatial_dims, w.step, kMostSteps, w.reach(), kMostOffset[of_dims], w.lower, w.upper(), kCorner[of_dims]);
    return {};
  };
  if (!data) return obstacle(cuda_conv_windows(p));
  const std::int64_t phases = phases_of(p);
  if (phases > TS_CONV_PHASES || (phases > 1 && std::ranges::any_of(p.epilogue, reads_tensor)))
    return fmt::format("backward data has at most {} phases, and one where its epilogue reads tensors; {} phases",
                       TS_CONV_PHASES, phases);
  for (const CudaConvPhase& phase : cuda_conv_phases(p))
    if (auto why = obstacle(phase.windows)) return why;
  return {};
}

const CudaConvChoosing& cuda_conv_choosing_warp_specialized() {
  static const CudaConvChoosing choosing{window_may_suit, window_unsuited, window_is_needless, window_seconds};
  return choosing;
}

}  // namespace tilesmith
