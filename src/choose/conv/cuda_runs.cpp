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

CudaConvRuns cuda_conv_tiles(const ConvProblem& p, int rows, int columns, int images) {
  const std::array<std::int64_t, 3> of_tile{1, rows, columns};
  CudaConvRuns w{.tiles = ceil_div(p.batch, std::int64_t{images})};
  for (std::size_t d = 0; d < 3; ++d) {
    const CudaConvAxis axis = cuda_conv_axis(p, d);
    w.phases[d] = static_cast<int>(axis.phases);
    w.tiles_along[d] = static_cast<int>(ceil_div(axis.results, of_tile[d]));
    w.tiles *= axis.phases * w.tiles_along[d];
    if (d == 0 && p.direction != ConvDirection::backward_weight) w.depth_steps = static_cast<int>(axis.taps);
  }
  return w;
}

std::int64_t cuda_filter_parts(const ConvProblem& p, int tap_rows, int taps) {
  return p.filter_d * ceil_div(p.filter_h, std::int64_t{tap_rows}) * ceil_div(p.filter_w, std::int64_t{taps});
}

double join_seconds(const CudaSpec& spec, double join_us, std::int64_t bytes, double bytes_per_second) {
  return 1e-6 * join_us + spec.reference.launch_seconds() + static_cast<double>(bytes) / bytes_per_second;
}

double runs_join_seconds(const CudaSpec& spec, double join_us, std::int64_t bytes) {
  return join_seconds(spec, join_us, bytes, spec.conv.join.runs_bytes_per_second);
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
  const auto parts = static_cast<std::int64_t>(spec.conv.models.clusters.parts);
  const auto missing = static_cast<std::int64_t>(spec.conv.models.clusters.missing_sms);
  const std::int64_t places = spec.reference.sms / parts * resident;
  return std::max<std::int64_t>((parts - 1) * (places / cluster) + (places - missing * resident) / cluster, 1);
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
  w.rounds = static_cast<double>(ceil_div(w.blocks(), places));
  w.uneven = w.rounds * static_cast<double>(places) / static_cast<double>(w.blocks()) *
             static_cast<double>(ceil_div(w.tiles, w.runs) * w.runs) /
             static_cast<double>(std::max<std::int64_t>(w.tiles, 1));
}

}  // namespace tilesmith
