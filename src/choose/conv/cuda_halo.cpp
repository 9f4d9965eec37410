// Halo tiles suit filters of 3 x 3 taps side by side, whose pixels begin at multiples of 16 bytes.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_halo_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kHaloBlock = 64, kHaloBoxColumns = 8;

std::optional<std::string> halo_unsuited(const KernelConfig& config, const ConvProblem& p) {
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  if (p.filter() != ConvSpatial{1, 3, 3} || p.dilation_h != 1 || p.dilation_w != 1 || p.stride_h != tile.stride ||
      p.stride_w != tile.stride)
    return fmt::format("filter {}x{}, stride {}x{}, dilation {}x{}; the kernel's filter is 3x3, its stride {}",
                       p.filter_h, p.filter_w, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w, tile.stride);
  if (p.unaligned || p.c % 8 != 0 || p.k % 8 != 0)
    return fmt::format("copies are of 16 bytes; c {}, k {}, unaligned {}", p.c, p.k, p.unaligned);
  if (p.batch == 0) return "no images";
  return {};
}

bool halo_is_needless(const KernelConfig&, const ConvProblem&) {
  return false;
}

double halo_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p) {
  const CudaHaloWork work = cuda_halo_work(config, spec, p);
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  const std::int64_t boxes = ceil_div(p.batch * work.boxes_h * work.boxes_w, work.splits);
  const double rounds = static_cast<double>(ceil_div(work.items(), std::int64_t{spec.reference.sms}));
  // A step is of 16 pixels. With few stages it waits for the next box; with a stride of 2 four times as many pixels
  // come.
  const int stages = config.algorithm.stages;
  const double waits = (stages >= 4 ? 1 : stages == 3 ? 1.1 : 1.9) * (tile.stride == 2 ? 1.1 : 1);
  const double item = 1e-6 * (static_cast<double>(boxes * tile.rows) / 2 * row.step_us * waits + row.end_us);
  const double memory = bytes_of(p) / (spec.reference.bytes_per_second * spec.reference.reached_bandwidth);
  // Parts stay in the L2 cache.
  const double parts =
      static_cast<double>(work.items() * cuda_conv_resources(config).part_bytes) / spec.reference.bytes_per_second;
  return std::max(rounds * item, memory) + parts + 2e-6 * spec.reference.launch_us;
}

}  // namespace

CudaHaloWork cuda_halo_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  CudaHaloWork w;
  w.tiles = p.groups * ceil_div(p.k, kHaloBlock) * ceil_div(p.c, kHaloBlock);
  w.boxes_h = ceil_div(p.out()[1], std::int64_t{tile.rows});
  w.boxes_w = ceil_div(p.out()[2], kHaloBoxColumns);
  w.splits = std::clamp<std::int64_t>(spec.reference.sms / w.tiles, 1, p.batch * w.boxes_h * w.boxes_w);
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_halo() {
  static const CudaConvChoosing choosing{halo_unsuited, halo_is_needless, halo_seconds};
  return choosing;
}

}  // namespace tilesmith
