// Depthwise kernels suit groups of one channel whose pixels begin at multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_runs.hpp"
#include "instances/conv/cuda.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

bool is_line(const ConvProblem& p) {
  return p.in_h == 1 && p.out()[1] == 1;
}

std::optional<std::string> strips_unsuited(const CudaDepthwiseTile& tile, const ConvProblem& p) {
  for (const std::size_t d : {1, 2}) {
    if (const std::int64_t pace = cuda_conv_axis(p, d).pace; pace != tile.pace)
      return fmt::format("results meet pixels {} apart, the kernel's {}", pace, tile.pace);
    if (p.filter()[d] != tile.taps) return fmt::format("{} taps, the kernel's {}", p.filter()[d], tile.taps);
  }
  if (p.filter_d > 1) return fmt::format("{} taps along the outer coordinate, the kernel's 1", p.filter_d);
  if (p.direction == ConvDirection::backward_data && p.stride() != ConvSpatial{1, 1, 1})
    return "phases of a stride meet fewer taps than the kernel's";
  if (tile.whole) {
    if (p.stride() != ConvSpatial{1, 1, 1} || p.dilation() != ConvSpatial{1, 1, 1})
      return "a stride or dilation, which whole images do not have";
    for (const std::size_t d : {1, 2})
      if (p.in()[d] > tile.rows || p.out()[d] > tile.rows || p.pad()[d] != tile.taps / 2)
        return fmt::format("{} to {} pixels, pad {}: whole images have {} at most, and pad {}", p.in()[d], p.out()[d],
                           p.pad()[d], tile.rows, tile.taps / 2);
  }
  return cuda_maps_unsuited(p, tile.rows, tile.columns, tile.taps, tile.pace);
}

bool depthwise_may_suit(const ConvProblem& p) {
  return p.c == 1 && p.k == 1;
}

std::optional<std::string> depthwise_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& p) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  if (!depthwise_may_suit(p)) return fmt::format("c {} and k {} in a group, depthwise 1 and 1", p.c, p.k);
  const std::int64_t chunk = 128 / bits_of(p.data_type);
  if (p.unaligned || p.groups % chunk != 0)
    return fmt::format("{} groups, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.unaligned);
  if (const std::int64_t pace = cuda_depthwise_row(p).pace; pace != tile.pace)
    return fmt::format("results of a row meet pixels {} apart, the kernel's {}", pace, tile.pace);
  if (is_mapped(config.algorithm)) return strips_unsuited(tile, p);
  if (cuda_depthwise_shapes(config, p).empty())
    return fmt::format("no tile of pixels and filters of {} taps fit shared memory together", taps_of(p));
  return {};
}

/// A problem's kernels have tiles of its kind, rows or a line, and of the numbers of taps the least that holds a row of
/// the filter, or the most.
bool depthwise_is_needless(const KernelConfig& config, const ConvProblem& p) {
  if (is_mapped(config.algorithm)) return false;
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  if (is_line(p) != (tile.rows == 1)) return true;
  const std::span<const int> taps = cuda_depthwise_taps(p.direction, tile.rows, tile.pace);
  const auto found = std::ranges::lower_bound(taps, cuda_depthwise_row(p).taps);
  return tile.taps != (found == taps.end() ? taps.back() : *found);
}

double depthwise_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec,
                         const ConvProblem& problem) {
  if (is_mapped(config.algorithm)) return cuda_mapped_depthwise_work(config, spec, problem).seconds;
  return cuda_depthwise_work(config, spec, problem).seconds;
}

}  // namespace

const CudaConvChoosing& cuda_conv_choosing_depthwise() {
  static const CudaConvChoosing choosing{depthwise_may_suit, depthwise_unsuited, depthwise_is_needless,
                                         depthwise_seconds};
  return choosing;
}

}  // namespace tilesmith
