// How results of few channels are cut into boxes, and what that takes.
#include "choose/conv/cuda_direct_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

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
DirectAxis direct_axis(const ConvProblem& p, std::size_t d, bool all_phases) {
  const std::int64_t stride = p.stride()[d], dilation = p.dilation()[d], common = std::gcd(stride, dilation);
  if (p.direction == ConvDirection::forward) return {1, p.out()[d], p.filter()[d], stride, dilation};
  if (all_phases) {
    // The pixels of y that some phase of a result meets, from kernels/cuda/conv/direct/boxes.cuh's earliest on.
    const std::int64_t reached = p.pad()[d] - p.filter()[d] + 1, phases = std::min(stride, p.in()[d]);
    const std::int64_t earliest = reached < 0 ? -(-reached / stride) : ceil_div(reached, stride);
    const std::int64_t latest = (phases - 1 + p.pad()[d]) / stride;
    return {1, ceil_div(p.in()[d], stride), std::max<std::int64_t>(latest - earliest + 1, 1), 1, 1};
  }
  return {std::min(stride, p.in()[d]), ceil_div(p.in()[d], stride), ceil_div(p.filter()[d], stride / common), 1,
          dilation / common};
}

using DirectBox = std::array<std::int64_t, 3>;  // results by coordinate

struct DirectShape {
  std::array<DirectAxis, 3> axis;
  bool all_phases;
  std::int64_t units, pitch;  // octets of the most taps, made even; bytes of a pixel

  DirectShape(const Algorithm& a, const ConvProblem& p) : all_phases(cuda_direct_has_all_phases(a)) {
    for (std::size_t d = 0; d < 3; ++d) axis[d] = direct_axis(p, d, all_phases);
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
           kOctetBytes * (all_phases ? 1 + a.tile[1] : 1);
  }
};

/// The largest size of a box along a coordinate that cuts it evenly and is no larger than `most`; 0 where there is
/// none.
std::int64_t even_size(std::int64_t results, std::int64_t most) {
  const std::int64_t size = std::min(results, most);
  return size < 1 ? 0 : ceil_div(results, ceil_div(results, size));
}

/// How many groups, and columns of one, neighbouring blocks take side by side: whole shares of them, as many as leave
/// no more than one block of thirty-two without work.
std::pair<std::int64_t, std::int64_t> beside_each_other(std::int64_t blocks, std::int64_t groups,
                                                        std::int64_t columns) {
  const auto suit = [&](std::int64_t together) { return blocks % together * 32 <= blocks; };
  const auto most = [&](std::int64_t all, std::int64_t each) {
    std::int64_t share = std::min(all, blocks / each);
    while (share > 1 && (all % share != 0 || !suit(share * each))) --share;
    return std::max<std::int64_t>(share, 1);
  };
  const std::int64_t of_columns = most(columns, 1);
  return {of_columns == columns ? most(groups, columns) : 1, of_columns};
}

/// What share of the most taps of a phase its phases have in the mean.
double share_of_taps(const ConvProblem& p, const DirectShape& shape) {
  double share = 1;
  for (std::size_t d = 0; d < 3; ++d)
    share *= static_cast<double>(p.filter()[d]) / static_cast<double>(shape.axis[d].phases * shape.axis[d].taps);
  return std::min(share, 1.0);
}

/// The boxes that a kernel may cut a problem into. What they have in common is worked out once.
class DirectBoxes {
 public:
  DirectBoxes(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p)
      : algorithm_(config.algorithm),
        spec_(spec),
        shape_(algorithm_, p),
        facts_(cuda_conv_resources(config)),
        read_channels_(read_channels(p)),
        beside_{shape_.axis[0].phases * shape_.axis[1].phases * shape_.axis[2].phases, p.groups,
                shape_.all_phases ? 1 : ceil_div(written_channels(p), std::int64_t{algorithm_.tile[1]}), p.batch},
        memory_seconds_(spec.reference.memory_seconds(bytes_of(p))) {
    const CudaConvDirectModel& cost = spec.conv.models.direct;
    const double sixteens = algorithm_.tile[0] / 16.0, eights = algorithm_.tile[1] / 8.0, warps = algorithm_.wave[0];
    const double share = shape_.all_phases ? 1.0 : share_of_taps(p, shape_);
    box_cycles_ = cost.load_cycles * static_cast<double>(shape_.units) * share / 2 * (sixteens + warps * eights / 2) +
                  cost.box_cycles * warps + cost.result_cycles * algorithm_.tile[0] * algorithm_.tile[1];
  }

  /// That of the least time.
  [[nodiscard]] CudaDirectWork best() const {
    const std::int64_t most = algorithm_.tile[0];
    const std::array<DirectAxis, 3>& axis = shape_.axis;
    double least_cycles = std::numeric_limits<double>::infinity(), least = least_cycles;
    std::optional<Launch> found;
    for (std::int64_t w = even_size(axis[2].results, most); w > 0; w = even_size(axis[2].results, w - 1))
      for (std::int64_t h = even_size(axis[1].results, most / w); h > 0; h = even_size(axis[1].results, h - 1))
        for (std::int64_t d = even_size(axis[0].results, most / (w * h)); d > 0;
             d = even_size(axis[0].results, d - 1)) {
          const DirectBox box{d, h, w};
          if (shape_.shared_bytes(box, algorithm_) > facts_.shared_bytes) continue;
          const Launch launch = launch_of(box);
          if (const double cycles = cycles_of(launch); cycles < least_cycles) {
            const double seconds = seconds_of(cycles);
            if (seconds < least) {
              least = seconds;
              least_cycles = cycles;
              found = launch;
            }
          }
          break;  // thinner boxes of as many rows take longer
        }
    return found ? work_of(*found, least) : CudaDirectWork{.seconds = least};
  }

 private:
  struct Launch {
    DirectBox box;
    std::int64_t pixels, shared_bytes, items, resident, blocks;
  };

  [[nodiscard]] Launch launch_of(const DirectBox& box) const {
    Launch launch{.box = box,
                  .pixels = shape_.pixels(box),
                  .shared_bytes = shape_.shared_bytes(box, algorithm_),
                  .items = beside_[0] * beside_[1] * beside_[2] * beside_[3],
                  .resident = 0,
                  .blocks = 0};
    for (std::size_t d = 0; d < 3; ++d) launch.items *= ceil_div(shape_.axis[d].results, box[d]);
    launch.resident = std::clamp<std::int64_t>(
        spec_.shared_bytes_per_sm / (launch.shared_bytes + spec_.shared_bytes_reserved), 1, facts_.blocks_per_sm);
    launch.blocks = std::min(launch.items, spec_.reference.sms * launch.resident);
    return launch;
  }

  /// Of an SM. Its blocks share its cycles, and each brings the filters.
  [[nodiscard]] double cycles_of(const Launch& launch) const {
    const CudaConvDirectModel& cost = spec_.conv.models.direct;
    const double rounds =
        static_cast<double>(launch.items) / static_cast<double>(spec_.reference.sms * launch.resident);
    const double whole = rounds < 4 ? std::ceil(rounds) : rounds + 0.5;  // many rounds end anywhere
    const auto blocks = static_cast<double>(ceil_div(launch.blocks, std::int64_t{spec_.reference.sms}));
    const double of_box = box_cycles_ + cost.copy_cycles * static_cast<double>(launch.pixels * read_channels_) / 8;
    return blocks * (whole * of_box + cost.filter_cycles * static_cast<double>(shape_.units * algorithm_.tile[1]));
  }

  [[nodiscard]] double seconds_of(double cycles) const {
    const CudaConvDirectModel& cost = spec_.conv.models.direct;
    return 1e-6 * cost.begin_us + spec_.reference.launch_seconds() +
           std::hypot(cycles / (1e9 * cost.clock_ghz), memory_seconds_);
  }

  [[nodiscard]] CudaDirectWork work_of(const Launch& launch, double seconds) const {
    CudaDirectWork w;
    std::array<std::int64_t, TS_CONV_BOX_DIGITS> sizes{};
    std::ranges::copy(beside_, sizes.begin());
    for (std::size_t d = 0; d < 3; ++d) {
      const DirectAxis& axis = shape_.axis[d];
      sizes[beside_.size() + d] = ceil_div(axis.results, launch.box[d]);
      w.boxes.results[d] = static_cast<int>(launch.box[d]);
      w.boxes.taps[d] = static_cast<int>(axis.taps);
      w.boxes.pixels[d] = static_cast<int>(axis.pixels(launch.box[d]));
      w.boxes.apart[d] = static_cast<int>(axis.apart);
      w.boxes.hop[d] = static_cast<int>(axis.hop);
    }
    w.items = launch.items;
    w.stage_bytes = launch.pixels * shape_.pitch;
    w.shared_bytes = launch.shared_bytes;
    const auto [groups, columns] = beside_each_other(launch.blocks, sizes[1], sizes[2]);
    w.boxes.beside[0] = static_cast<int>(groups);
    w.boxes.beside[1] = static_cast<int>(columns);
    sizes[1] /= groups;
    sizes[2] /= columns;
    std::int64_t rest = launch.blocks / (groups * columns);
    w.blocks = rest * groups * columns;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      w.boxes.size[i] = static_cast<int>(sizes[i]);
      w.boxes.step[i] = static_cast<int>(i > 0 ? rest % sizes[i] : rest);
      rest /= sizes[i];
    }
    w.seconds = seconds;
    return w;
  }

  const Algorithm& algorithm_;
  const CudaSpec& spec_;
  const DirectShape shape_;
  const CudaConvResources facts_;
  const std::int64_t read_channels_;
  const std::array<std::int64_t, 4> beside_;  ///< phases, groups, columns and images, which boxes do not cut
  const double memory_seconds_;
  double box_cycles_;  ///< of a box, but for the pixels that it copies
};

}  // namespace

std::int64_t cuda_phase_columns(const ConvProblem& p) {
  std::int64_t columns = p.c;
  for (std::size_t d = 0; d < 3; ++d) columns *= std::min(p.stride()[d], p.in()[d]);
  return columns;
}

std::int64_t cuda_direct_least_bytes(const Algorithm& algorithm, const ConvProblem& problem) {
  return DirectShape(algorithm, problem).shared_bytes({1, 1, 1}, algorithm);
}

CudaDirectWork cuda_direct_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  return DirectBoxes(config, spec, p).best();
}

}  // namespace tilesmith
