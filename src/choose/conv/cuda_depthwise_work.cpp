#include "choose/conv/cuda_depthwise_work.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "choose/conv/cuda_runs.hpp"
#include "choose/overlapped.hpp"
#include "choose/rounding.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostTiles = 1 << 30;  // a kernel counts runs and blocks in 32 bits

}  // namespace

CudaConvAxis cuda_conv_axis(const ConvProblem& p, std::size_t d) {
  const std::int64_t stride = p.stride()[d], dilation = p.dilation()[d], common = std::gcd(stride, dilation);
  const bool data = p.direction == ConvDirection::backward_data;
  const std::int64_t results = data ? p.in()[d] : p.out()[d];
  CudaConvAxis c;
  c.phases = std::min(results, dilation / common * (data ? stride : 1));
  c.results = ceil_div(results, std::max<std::int64_t>(c.phases, 1));
  c.taps = data ? ceil_div(p.filter()[d], stride / common) : p.filter()[d];
  c.pace = data ? 1 : stride / common;
  return c;
}

CudaDepthwiseRow cuda_depthwise_row(const ConvProblem& problem) {
  const CudaConvAxis c = cuda_conv_axis(problem, 2);
  return {c.taps, c.pace};
}

std::vector<CudaDepthwiseShape> cuda_depthwise_shapes(const KernelConfig& config, const ConvProblem& p) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  const int stages = config.algorithm.stages, bytes = bits_of(p.data_type) / 8;
  const bool weight = p.direction == ConvDirection::backward_weight;
  const std::array<CudaConvAxis, 3> axis{cuda_conv_axis(p, 0), cuda_conv_axis(p, 1), cuda_conv_axis(p, 2)};
  const std::int64_t taps_h = weight ? std::min<std::int64_t>(axis[1].taps, tile.tap_rows) : axis[1].taps;
  const std::int64_t taps_w = weight ? std::min<std::int64_t>(axis[2].taps, tile.taps) : axis[2].taps;
  std::vector<CudaDepthwiseShape> out;
  for (int lanes = std::max(8 / bytes, 1); lanes <= facts.threads; lanes *= 2) {
    const std::int64_t channels = 2 * lanes, pixel_bytes = channels * bytes;
    const std::int64_t columns = std::int64_t{facts.threads / lanes} * tile.columns;
    const std::array<std::int64_t, 3> of_tile{1, tile.rows, columns};
    CudaDepthwiseShape w{.lanes = lanes, .tiles = p.batch};
    for (std::size_t d = 0; d < 3; ++d) {
      w.phases[d] = static_cast<int>(axis[d].phases);
      w.tiles_along[d] = static_cast<int>(ceil_div(axis[d].results, of_tile[d]));
      w.tiles *= axis[d].phases * w.tiles_along[d];
    }
    w.depth_steps = weight ? 1 : static_cast<int>(axis[0].taps);
    w.units = ceil_div(p.groups, channels);
    const std::int64_t rows = (tile.rows - 1) * axis[1].pace + taps_h;
    w.stage_bytes = rows * ((columns - 1) * tile.pace + taps_w) * pixel_bytes;
    if (weight) {
      w.units *= axis[0].taps * ceil_div(axis[1].taps, std::int64_t{tile.tap_rows}) *
                 ceil_div(axis[2].taps, std::int64_t{tile.taps});
      w.stage_bytes += tile.rows * columns * pixel_bytes;
      w.part_bytes = 4 * channels * tile.tap_rows * tile.taps;
      w.shared_bytes = std::max<std::int64_t>(stages * w.stage_bytes, 8L * facts.threads * tile.taps);
    } else {
      w.shared_bytes = stages * w.stage_bytes + 4 * channels * taps_of(p);
    }
    w.shared_bytes += kCudaConvPlanBytes;
    if (w.shared_bytes > facts.shared_bytes || w.tiles > kMostTiles || w.units > kMostTiles) continue;
    // Multiply-adds; a pixel is loaded and, of 16 bits, widened by two more; weights are loaded; 16 bytes that are
    // copied take a dozen. Counted in the machine code.
    const double window = (bytes == 2 ? 3.0 : 1.0) * static_cast<double>((tile.columns - 1) * tile.pace + taps_w);
    const auto taps = static_cast<double>(taps_h * taps_w);
    w.instructions = 2.0 * tile.rows * tile.columns * taps +
                     (weight ? tile.rows * (window * static_cast<double>(taps_h) + 3.0 * tile.columns)
                             : window * static_cast<double>(rows) + tile.rows * taps) +
                     12.0 * static_cast<double>(w.stage_bytes) / 16 / facts.threads;
    out.push_back(w);
  }
  return out;
}

CudaDepthwiseWork cuda_depthwise_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaConvResources facts = cuda_conv_resources(config);
  const bool weight = p.direction == ConvDirection::backward_weight;
  const CudaConvDepthwiseModel& model = spec.conv.models.depthwise;
  const CudaConvIssueModel& fit = weight ? model.weight : model.data;
  CudaDepthwiseWork best;
  for (const CudaDepthwiseShape& shape : cuda_depthwise_shapes(config, p)) {
    CudaDepthwiseWork w{.shape = shape};
    const std::int64_t resident = std::clamp<std::int64_t>(
        spec.shared_bytes_per_sm / (shape.shared_bytes + spec.shared_bytes_reserved), 1, facts.blocks_per_sm);
    const std::int64_t places = spec.reference.sms * resident;
    // A run of backward weight leaves a partial; of the others it loads its weights.
    w.runs = std::clamp<std::int64_t>(places / shape.units, 1, std::max<std::int64_t>(shape.tiles, 1));
    // A place has blocks one after the other, each a run of steps. Few warps issue less than an SM could, and a block
    // waits for each step's pixels, and for its first ones and its weights.
    const double warps = static_cast<double>(resident * config.algorithm.wave[0]);
    const double issued = std::min(fit.issued_of_warp * warps, fit.issued);
    const double cycles = shape.instructions * warps / issued + fit.step_cycles;
    const auto rounds = static_cast<double>(ceil_div(w.blocks(), places));
    const auto steps = static_cast<double>(ceil_div(shape.tiles, w.runs) * shape.depth_steps);
    const double compute = 1e-9 * rounds * (steps * cycles + fit.run_cycles) / model.clock_ghz;
    const double cached = static_cast<double>(shape.tiles * shape.units * shape.depth_steps) *
                          static_cast<double>(shape.stage_bytes) / (model.cached * spec.reference.bytes_per_second);
    w.seconds = overlapped(std::max(compute, cached), spec.reference.memory_seconds(bytes_of(p)), model.overlap) +
                spec.reference.launch_seconds();
    if (w.runs > 1 && weight)
      w.seconds += join_seconds(spec, spec.conv.join.depthwise_us, w.blocks() * shape.part_bytes,
                                spec.conv.join.depthwise_bytes_per_second);
    if (best.seconds == 0 || w.seconds < best.seconds) best = w;
  }
  return best;
}

CudaConvRuns cuda_mapped_depthwise_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  const CudaConvResources facts = cuda_conv_resources(config);
  CudaConvRuns w = cuda_conv_tiles(p, tile.rows, tile.columns, tile.images);
  w.units = ceil_div(p.groups, std::int64_t{tile.channels});
  w.shared_bytes = facts.shared_bytes;
  const int cluster = config.algorithm.cluster[0];
  cut_into_runs(w, spec, facts.blocks_per_sm, cluster);
  // Instructions of a tile: multiply-adds; a pixel is loaded and widened by two more; results are rounded and stored.
  const double results = static_cast<double>(tile.rows) * tile.columns * tile.channels / 64;  // by a warp
  const double met = ((tile.rows - 1.0) * tile.pace + tile.taps) * ((tile.columns - 1.0) * tile.pace + tile.taps);
  // Two strips of a warp, 14 pixels of 64 bytes apart, meet the same banks.
  const CudaConvStripsModel& model = spec.conv.models.strips;
  const double of_load = tile.channels == 32 && tile.pace == 2 ? model.conflicting_load : model.load;
  double of_tile = results * (2.0 * tile.taps * tile.taps + 4) + of_load * met * tile.channels / 64;
  if (tile.whole) {  // a warp's: taps beside the image are none
    const double beside = (tile.taps / 2) * (tile.taps / 2 + 1), along = tile.rows * tile.taps - beside;
    of_tile = tile.images * (2 * along * along + 3.0 * tile.taps * tile.taps + 6.0 * tile.rows * tile.columns);
  }
  const double of_step = static_cast<double>(w.resident) * (of_tile / model.issued + model.step_cycles);
  const double compute = 1e-9 * w.rounds * (w.steps_of_run() * of_step + model.run_cycles) / model.clock_ghz;
  w.seconds =
      overlapped(compute, spec.reference.memory_seconds(bytes_of(p)), model.overlap) + spec.reference.launch_seconds();
  if (cluster > 1) w.seconds += 1e-6 * spec.conv.join.strips_us;  // runs are added up
  return w;
}

}  // namespace tilesmith
