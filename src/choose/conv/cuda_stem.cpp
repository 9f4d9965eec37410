// Kernels for images of 1 to 4 channels, of any layout, in one group.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostChannelsOfStem = 4, kUnitBytes = 16, kStemColumns = 16, kWorkBytes = 128;

bool adds_filters_up(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}

/// The units of kernels/cuda/conv/stem/lines.cuh, of 16 bytes: of a row of a tile of pixels, and those that a result
/// meets in a slice of the filter, at most: whether channels are neighbours a problem says only where nothing is
/// unaligned.
struct StemUnits {
  std::int64_t of_row = 0, met = 0;
};
StemUnits stem_units(const ConvProblem& p) {
  const std::int64_t span = (kStemColumns - 1) * cuda_conv_axis(p, 2).pace + p.filter_w;
  const auto of = [&](std::int64_t planes) {
    const std::int64_t channels = p.c / planes,
                       pairs = ceil_div(p.pad_w * channels % 2 + p.filter_w * channels, std::int64_t{2});
    return StemUnits{planes * ceil_div(span * channels + 9, std::int64_t{8}),
                     ceil_div(p.filter_h * planes * pairs, std::int64_t{8}) * 2};
  };
  const StemUnits last = of(1), first = of(p.unaligned ? p.c : 1);
  return {std::max(last.of_row, first.of_row), std::max(last.met, first.met)};
}

std::int64_t stem_stage_bytes(const KernelConfig& config, const ConvProblem& p) {
  const CudaStemTile tile = cuda_stem_tile(config.algorithm);
  const CudaConvAxis rows = cuda_conv_axis(p, 1);
  const std::int64_t of_y = adds_filters_up(p) ? kStemColumns * tile.rows * tile.filters * 2 : 0;
  return of_y + ((tile.rows - 1) * rows.pace + rows.taps) * stem_units(p).of_row * kUnitBytes;
}

std::int64_t stem_shared_bytes(const KernelConfig& config, const ConvProblem& p) {
  const std::int64_t stages = config.algorithm.stages * stem_stage_bytes(config, p);
  if (adds_filters_up(p)) {
    const CudaConvResources facts = cuda_conv_resources(config);
    return kCudaConvPlanBytes + kWorkBytes +
           std::max<std::int64_t>({stages, facts.folded_bytes, std::int64_t{16} * facts.threads});
  }
  const std::int64_t units = stem_units(p).met;
  const std::int64_t filters = p.filter_d * units * cuda_stem_tile(config.algorithm).filters * kUnitBytes;
  return kCudaConvPlanBytes + kWorkBytes + 2 * kUnitBytes * units + stages + filters;
}

/// Whether y is read 16 bytes at a time.
bool y_is_aligned(const ConvProblem& p) {
  return !p.unaligned && p.k % 8 == 0;
}

bool stem_may_suit(const ConvProblem& p) {
  return p.groups == 1 && p.c <= kMostChannelsOfStem;
}

std::optional<std::string> stem_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& p) {
  if (!stem_may_suit(p))
    return fmt::format("{} groups of {} channels, the kernel's 1 of at most {}", p.groups, p.c, kMostChannelsOfStem);
  const CudaConvResources facts = cuda_conv_resources(config);
  if ((facts.pairs && !cuda_conv_access(p).pairs) || (facts.aligned && !y_is_aligned(p)))
    return fmt::format("y goes by {}; k {}, unaligned {}", facts.pairs ? "pairs" : "16 bytes", p.k, p.unaligned);
  if (const std::int64_t bytes = stem_shared_bytes(config, p); bytes > facts.shared_bytes)
    return fmt::format("tiles and filters of {} taps take {} bytes of shared memory", taps_of(p), bytes);
  return {};
}

/// A problem's kernels have the widest accesses, and of the numbers of units the least that holds a slice of the
/// filter, or the most.
bool stem_is_needless(const KernelConfig& config, const ConvProblem& p) {
  const CudaConvResources facts = cuda_conv_resources(config);
  if (!adds_filters_up(p)) return facts.pairs != cuda_conv_access(p).pairs;
  const std::span<const int> units = cuda_stem_units();
  const auto found = std::ranges::lower_bound(units, stem_units(p).met);
  return facts.aligned != y_is_aligned(p) ||
         cuda_stem_tile(config.algorithm).units != (found == units.end() ? units.back() : *found);
}

double stem_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec, const ConvProblem& problem) {
  return cuda_stem_work(config, spec, problem).seconds;
}

}  // namespace

CudaConvRuns cuda_stem_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaStemTile tile = cuda_stem_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const bool weight = adds_filters_up(p);
  const StemUnits units = stem_units(p);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, kStemColumns);
  w.units = ceil_div(p.k, std::int64_t{tile.filters});
  if (weight) w.units *= p.filter_d * ceil_div(units.met, std::int64_t{tile.units});
  w.stage_bytes = stem_stage_bytes(config, p);
  w.shared_bytes = stem_shared_bytes(config, p);
  cut_into_runs(w, spec, facts.blocks_per_sm);
  // Products, and units that are brought, which few warps wait for.
  const CudaConvStemModel& model = spec.conv.models.stem;
  const double alone = std::max(1.0, model.warps / static_cast<double>(w.resident * config.algorithm.wave[0]));
  const auto depth = static_cast<double>(8 * (weight ? tile.units : units.met));
  const double products = static_cast<double>(kStemColumns * tile.rows * tile.filters) * depth;
  const double cycles = products / model.products +
                        model.unit_cycles * static_cast<double>(w.stage_bytes / kUnitBytes) + model.step_cycles;
  const double compute = 1e-9 * w.steps() * cycles * alone / model.clock_ghz / spec.reference.sms * w.uneven;
  w.seconds = std::max(compute, spec.reference.memory_seconds(bytes_of(p))) + spec.reference.launch_seconds() +
              1e-6 * model.begin_us;
  if (weight) w.seconds += runs_join_seconds(spec, 0, w.blocks() * facts.part_bytes);
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_stem() {
  static const CudaConvChoosing choosing{stem_may_suit, stem_unsuited, stem_is_needless, stem_seconds};
  return choosing;
}

}  // namespace tilesmith
