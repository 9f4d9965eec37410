// Depthwise kernels suit groups of one channel whose pixels begin at multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "instances/conv/cuda.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

bool is_line(const ConvProblem& p) {
  return p.in_h == 1 && p.out()[1] == 1;
}

std::optional<std::string> depthwise_unsuited(const KernelConfig& config, const ConvProblem& p) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  if (p.c != 1 || p.k != 1) return fmt::format("c {} and k {} in a group, depthwise 1 and 1", p.c, p.k);
  const std::int64_t chunk = 128 / bits_of(p.data_type);
  if (p.unaligned || p.groups % chunk != 0)
    return fmt::format("{} groups, unaligned {}: pixels are read 16 bytes at a time", p.groups, p.unaligned);
  if (const std::int64_t pace = cuda_depthwise_row(p).pace; pace != tile.pace)
    return fmt::format("results of a row meet pixels {} apart, the kernel's {}", pace, tile.pace);
  if (cuda_depthwise_shapes(config, p).empty())
    return fmt::format("no tile of pixels and filters of {} taps fit shared memory together", taps_of(p));
  return {};
}

/// A problem's kernels have tiles of its kind, rows or a line, and of the numbers of taps the least that holds a row of
/// the filter, or the most.
bool depthwise_is_needless(const KernelConfig& config, const ConvProblem& p) {
  const CudaDepthwiseTile tile = cuda_depthwise_tile(config.algorithm);
  if (is_line(p) != (tile.rows == 1)) return true;
  const std::span<const int> taps = cuda_depthwise_taps(p.direction, tile.rows);
  const auto found = std::ranges::lower_bound(taps, cuda_depthwise_row(p).taps);
  return tile.taps != (found == taps.end() ? taps.back() : *found);
}

double depthwise_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec,
                         const ConvProblem& problem) {
  return cuda_depthwise_work(config, spec, problem).seconds;
}

}  // namespace

const CudaConvChoosing& cuda_conv_choosing_depthwise() {
  static const CudaConvChoosing choosing{depthwise_unsuited, depthwise_is_needless, depthwise_seconds};
  return choosing;
}

}  // namespace tilesmith
