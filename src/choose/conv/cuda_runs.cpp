#include "choose/conv/cuda_runs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostTilesOfRun = 1 << 30;  // a kernel counts runs and blocks in 32 bits
constexpr std::int64_t kFurthestApart = 8;         // pixels that a tensor map steps to
constexpr std::int64_t kLongestBox = 256;          // from the first to the last

}  // namespace

CudaConvRuns cuda_conv_tiles(const ConvProblem& p, int rows, int columns) {
  const std::array<std::int64_t, 3> of_tile{1, rows, columns};
  CudaConvRuns w{.tiles = p.batch};
  for (std::size_t d = 0; d < 3; ++d) {
    const CudaConvAxis axis = cuda_conv_axis(p, d);
    w.phases[d] = static_cast<int>(axis.phases);
    w.tiles_along[d] = static_cast<int>(ceil_div(axis.results, of_tile[d]));
    w.tiles *= axis.phases * w.tiles_along[d];
    if (d == 0 && p.direction != ConvDirection::backward_weight) w.depth_steps = static_cast<int>(axis.taps);
  }
  return w;
}

std::optional<std::string> cuda_maps_unsuited(const ConvProblem& p, int rows, int columns, int taps, int pace) {
  for (const std::size_t d : {1, 2}) {
    const CudaConvAxis axis = cuda_conv_axis(p, d);
    const std::int64_t hop = std::max(axis.phases, p.dilation()[d]), along = d == 1 ? rows : columns;
    if (hop > kFurthestApart)
      return fmt::format("{} phases, dilation {}: copies step over {} pixels at most", axis.phases, p.dilation()[d],
                         kFurthestApart);
    if (const std::int64_t length = ((along - 1) * pace + taps - 1) * hop + 1; length > kLongestBox)
      return fmt::format("a tile of {} pixels, {} apart, is longer than {}", along, hop, kLongestBox);
  }
  return {};
}

std::int64_t cuda_clusters_at_a_time(const CudaSpec& spec, std::int64_t cluster, std::int64_t resident) {
  // A cluster lies in one of eight parts of a chip, of which one has fewer SMs than the others. Of an H200's and an
  // H100's 132 SMs fifteen clusters of 8 find place at a time, and sixteen of 6; sixteen of 7 or 8 do not, nor 32 of 4,
  // nor 24 of 5 (docs/log/2026-11-cuda-conv.md).
  constexpr std::int64_t kPartsOfChip = 8, kMissing = 4;
  const std::int64_t places = spec.reference.sms / kPartsOfChip * resident;
  return std::max<std::int64_t>((kPartsOfChip - 1) * (places / cluster) + (places - kMissing * resident) / cluster, 1);
}

void cut_into_runs(CudaConvRuns& w, const CudaSpec& spec, int most, int cluster) {
  w.resident =
      std::clamp<std::int64_t>(spec.shared_bytes_per_sm / (w.shared_bytes + spec.shared_bytes_reserved), 1, most);
  std::int64_t places = spec.reference.sms * w.resident;
  if (cluster > 1) {
    const std::int64_t clusters = cuda_clusters_at_a_time(spec, cluster, w.resident);
    places = clusters * cluster;
    w.runs = std::max<std::int64_t>(clusters / w.units, 1) * cluster;
  } else {
    w.runs = std::clamp<std::int64_t>(places / w.units, 1, std::clamp<std::int64_t>(w.tiles, 1, kMostTilesOfRun));
  }
  w.uneven = static_cast<double>(ceil_div(w.blocks(), places) * places) / static_cast<double>(w.blocks()) *
             static_cast<double>(ceil_div(w.tiles, w.runs) * w.runs) /
             static_cast<double>(std::max<std::int64_t>(w.tiles, 1));
}

}  // namespace tilesmith
