// How results of few channels are cut into boxes, and what that takes.
#include "choose/conv/cuda_direct_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "choose/conv/cuda_work.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kOctetBytes = 16;  // also of an entry of a table

/// One coordinate as kernels/cuda/conv/direct/boxes.cuh has it: results of the largest phase, the most taps of one, and
/// pixels from result to result and from tap to tap.
struct DirectAxis {
  std::int64_t phases, results, taps, apart, hop;
  [[nodiscard]] std::int64_t pixels(std::int64_t of_box) const { return (of_box - 1) * apart + (taps - 1) * hop + 1; }
};
DirectAxis direct_axis(const ConvProblem& p, std::size_t d) {
  const std::int64_t stride = p.stride()[d], dilation = p.dilation()[d], common = std::gcd(stride, dilation);
  if (p.direction == ConvDirection::forward) return {1, p.out()[d], p.filter()[d], stride, dilation};
  return {std::min(stride, p.in()[d]), ceil_div(p.in()[d], stride), ceil_div(p.filter()[d], stride / common), 1,
          dilation / common};
}

using DirectBox = std::array<std::int64_t, 3>;  // results by coordinate

struct DirectShape {
  std::array<DirectAxis, 3> axis;
  std::int64_t units, pitch;  // octets of the most taps, made even; bytes of a pixel

  explicit DirectShape(const ConvProblem& p) : axis{direct_axis(p, 0), direct_axis(p, 1), direct_axis(p, 2)} {
    const std::int64_t octets = ceil_div(read_channels(p), std::int64_t{8});
    units = ceil_div(octets * axis[0].taps * axis[1].taps * axis[2].taps, std::int64_t{2}) * 2;
    pitch = (octets | 1) * kOctetBytes;
  }
  [[nodiscard]] std::int64_t pixels(const DirectBox& box) const {
    return axis[0].pixels(box[0]) * axis[1].pixels(box[1]) * axis[2].pixels(box[2]);
  }
  /// As kernels/cuda/conv/direct/tables.cuh lays them out.
  [[nodiscard]] std::int64_t shared_bytes(const DirectBox& box, const Algorithm& a) const {
    return pixels(box) * (a.stages * pitch + kOctetBytes) + units * (a.tile[1] + 1) * kOctetBytes + 4 * a.tile[0] +
           kOctetBytes;
  }
};

/// Sizes of a box along a coordinate that cut it evenly, the largest first.
std::vector<std::int64_t> even_sizes(std::int64_t results, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t size = std::min(results, most); size >= 1; size = out.back() - 1)
    out.push_back(ceil_div(results, ceil_div(results, size)));
  return out;
}

/// What share of the most taps of a phase its phases have in the mean.
double share_of_taps(const ConvProblem& p, const DirectShape& shape) {
  double share = 1;
  for (std::size_t d = 0; d < 3; ++d)
    share *= static_cast<double>(p.filter()[d]) / static_cast<double>(shape.axis[d].phases * shape.axis[d].taps);
  return std::min(share, 1.0);
}

/// Cycles of an SM that a box takes.
double cycles_of_box(const Algorithm& a, const CudaConvDirectModel& cost, const ConvProblem& p,
                     const DirectShape& shape, std::int64_t pixels) {
  const double sixteens = a.tile[0] / 16.0, eights = a.tile[1] / 8.0, warps = a.wave[0];
  return cost.load_cycles * static_cast<double>(shape.units) * share_of_taps(p, shape) / 2 *
             (sixteens + warps * eights / 2) +
         cost.box_cycles * warps + cost.result_cycles * a.tile[0] * a.tile[1] +
         cost.copy_cycles * static_cast<double>(pixels * read_channels(p)) / 8;
}

/// The blocks of an SM share its cycles, and each brings the filters.
double seconds_of(const CudaDirectWork& w, const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p,
                  const DirectShape& shape, std::int64_t pixels, std::int64_t resident) {
  const Algorithm& a = config.algorithm;
  const CudaConvDirectModel& cost = spec.conv.models.direct;
  const double rounds = static_cast<double>(w.items) / static_cast<double>(spec.reference.sms * resident);
  const double whole = rounds < 4 ? std::ceil(rounds) : rounds + 0.5;  // many rounds end anywhere
  const auto blocks = static_cast<double>(ceil_div(w.blocks, std::int64_t{spec.reference.sms}));
  const double cycles = blocks * (whole * cycles_of_box(a, cost, p, shape, pixels) +
                                  cost.filter_cycles * static_cast<double>(shape.units * a.tile[1]));
  return 1e-6 * cost.begin_us + spec.reference.launch_seconds() +
         std::hypot(cycles / (1e9 * cost.clock_ghz), spec.reference.memory_seconds(bytes_of(p)));
}

CudaDirectWork work_of(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p, const DirectShape& shape,
                       const DirectBox& box) {
  const Algorithm& a = config.algorithm;
  CudaDirectWork w;
  const std::int64_t phases = shape.axis[0].phases * shape.axis[1].phases * shape.axis[2].phases;
  std::array<std::int64_t, TS_CONV_BOX_DIGITS> sizes{phases, p.groups,
                                                     ceil_div(written_channels(p), std::int64_t{a.tile[1]}), p.batch};
  for (std::size_t d = 0; d < 3; ++d) {
    const DirectAxis& axis = shape.axis[d];
    sizes[4 + d] = ceil_div(axis.results, box[d]);
    w.boxes.results[d] = static_cast<int>(box[d]);
    w.boxes.taps[d] = static_cast<int>(axis.taps);
    w.boxes.pixels[d] = static_cast<int>(axis.pixels(box[d]));
    w.boxes.apart[d] = static_cast<int>(axis.apart);
    w.boxes.hop[d] = static_cast<int>(axis.hop);
  }
  w.items = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies{});
  const std::int64_t pixels = shape.pixels(box);
  w.stage_bytes = pixels * shape.pitch;
  w.shared_bytes = shape.shared_bytes(box, a);
  const std::int64_t resident =
      std::clamp<std::int64_t>(spec.shared_bytes_per_sm / (w.shared_bytes + spec.shared_bytes_reserved), 1,
                               cuda_conv_resources(config).blocks_per_sm);
  w.blocks = std::min(w.items, spec.reference.sms * resident);
  std::int64_t rest = w.blocks;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    w.boxes.size[i] = static_cast<int>(sizes[i]);
    w.boxes.step[i] = static_cast<int>(i > 0 ? rest % sizes[i] : rest);
    rest /= sizes[i];
  }
  w.seconds = seconds_of(w, config, spec, p, shape, pixels, resident);
  return w;
}

}  // namespace

std::int64_t cuda_direct_least_bytes(const Algorithm& algorithm, const ConvProblem& problem) {
  return DirectShape(problem).shared_bytes({1, 1, 1}, algorithm);
}

CudaDirectWork cuda_direct_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const DirectShape shape(p);
  const std::int64_t most = config.algorithm.tile[0], shared = cuda_conv_resources(config).shared_bytes;
  CudaDirectWork best;
  best.seconds = std::numeric_limits<double>::infinity();
  for (const std::int64_t w : even_sizes(shape.axis[2].results, most))
    for (const std::int64_t h : even_sizes(shape.axis[1].results, most / w))
      for (const std::int64_t d : even_sizes(shape.axis[0].results, most / (w * h))) {
        if (shape.shared_bytes({d, h, w}, config.algorithm) > shared) continue;
        const CudaDirectWork work = work_of(config, spec, p, shape, {d, h, w});
        if (work.seconds < best.seconds) best = work;
        break;  // thinner boxes of as many rows take longer
      }
  return best;
}

}  // namespace tilesmith
