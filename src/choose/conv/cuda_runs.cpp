#include "choose/conv/cuda_runs.hpp"

#include <algorithm>

#include "choose/conv/cuda_depthwise_work.hpp"
#include "choose/rounding.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostTilesOfRun = 1 << 30;  // a kernel counts runs and blocks in 32 bits

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

void cut_into_runs(CudaConvRuns& w, const CudaSpec& spec, int most) {
  w.resident =
      std::clamp<std::int64_t>(spec.shared_bytes_per_sm / (w.shared_bytes + spec.shared_bytes_reserved), 1, most);
  const std::int64_t places = spec.reference.sms * w.resident;
  w.runs = std::clamp<std::int64_t>(places / w.units, 1, std::clamp<std::int64_t>(w.tiles, 1, kMostTilesOfRun));
  w.uneven = static_cast<double>(ceil_div(w.blocks(), places) * places) / static_cast<double>(w.blocks()) *
             static_cast<double>(ceil_div(w.tiles, w.runs) * w.runs) /
             static_cast<double>(std::max<std::int64_t>(w.tiles, 1));
}

}  // namespace tilesmith
