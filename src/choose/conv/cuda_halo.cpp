// Halo tiles suit filters of 3 x 3 taps side by side, whose pixels begin at multiples of 16 bytes; forward and backward
// data those of at most 64 channels that are read, also of 3 x 3 x 3.
#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_halo_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/overlapped.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kHaloBlock = 64, kHaloBoxColumns = 8;

bool sums_filters(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}
/// Of forward and backward data: channels of a group that are read, and of the result.
std::int64_t halo_read(const ConvProblem& p) {
  return p.direction == ConvDirection::forward ? p.c : p.k;
}
std::int64_t halo_written(const ConvProblem& p) {
  return p.direction == ConvDirection::forward ? p.k : p.c;
}

bool is_volume(const ConvProblem& p) {
  return p.filter_d == 3;
}

bool halo_may_suit(const ConvProblem& p) {
  const bool sides = p.filter_h == 3 && p.filter_w == 3 && p.dilation_h == 1 && p.dilation_w == 1;
  return sides && (p.filter_d == 1 ||
                   (is_volume(p) && p.dilation_d == 1 && p.stride() == ConvSpatial{1, 1, 1} && !sums_filters(p)));
}

std::optional<std::string> halo_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& p) {
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  if (!halo_may_suit(p) || p.stride_h != tile.stride || p.stride_w != tile.stride)
    return fmt::format("filter {}x{}, stride {}x{}, dilation {}x{}; the kernel's filter is 3x3, its stride {}",
                       p.filter_h, p.filter_w, p.stride_h, p.stride_w, p.dilation_h, p.dilation_w, tile.stride);
  const int dims = std::get<ConvSignature>(config.signature).spatial_dims;
  if (is_volume(p) != (dims == 3))
    return fmt::format("{} taps along the outer coordinate, the kernel has {} dimensions", p.filter_d, dims);
  if (p.unaligned || p.c % 8 != 0 || p.k % 8 != 0)
    return fmt::format("copies are of 16 bytes; c {}, k {}, unaligned {}", p.c, p.k, p.unaligned);
  if (p.batch == 0) return "no images";
  if (sums_filters(p)) return {};
  if (halo_read(p) > kHaloBlock || (p.groups > 1 && (halo_read(p) != kHaloBlock || halo_written(p) % kHaloBlock != 0)))
    return fmt::format("{} groups of {} channels to {}; a block keeps filters of 64 channels, of groups of whole 64",
                       p.groups, halo_read(p), halo_written(p));
  return {};
}

bool halo_is_needless(const KernelConfig&, const ConvProblem&) {
  return false;
}

/// Boxes follow each other at the rate of products, while others come; the first waits for the filters. 3x3 64-64 on
/// 56x56 took 39.5 us in boxes of 28 rows and 44.3 in boxes of 16 (H200, docs/log/2026-11-cuda-conv.md).
double halo_data_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                         const ConvProblem& p) {
  const CudaHaloWork work = cuda_halo_work(config, spec, p);
  const std::int64_t boxes = ceil_div(work.boxes(p.batch), work.splits);
  const auto rounds = static_cast<double>(ceil_div(work.items(), std::int64_t{spec.reference.sms}));
  const double box = row.step_us * static_cast<double>(p.filter_d);
  const double compute = 1e-6 * rounds * (spec.conv.halo_filters_us + static_cast<double>(boxes) * box + row.end_us);
  return std::max(compute, spec.reference.memory_seconds(bytes_of(p))) + spec.reference.launch_seconds();
}

double halo_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec, const ConvProblem& p) {
  if (!sums_filters(p)) return halo_data_seconds(config, row, spec, p);
  const CudaHaloWork work = cuda_halo_work(config, spec, p);
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  const std::int64_t boxes = ceil_div(work.boxes(p.batch), work.splits);
  const double rounds = static_cast<double>(ceil_div(work.items(), std::int64_t{spec.reference.sms}));
  // A step is of 16 pixels. With few stages it waits for the next box; with a stride of 2 four times as many pixels
  // come.
  const CudaConvHaloModel& model = spec.conv.models.halo;
  const int stages = config.algorithm.stages;
  const double waits = (stages >= 4   ? 1
                        : stages == 3 ? model.three_stages
                                      : model.two_stages) *
                       (tile.stride == 2 ? model.stride : 1);
  const double item = 1e-6 * (static_cast<double>(boxes * tile.rows) / 2 * row.step_us * waits + row.end_us);
  // Parts stay in the L2 cache.
  const double parts =
      static_cast<double>(work.items() * cuda_conv_resources(config).part_bytes) / spec.reference.bytes_per_second;
  // What takes longer hides the rest in part. 3x3 64-64 on 56x56 took 47.0 us (H200) and 56.7 (H100), with a stride of
  // 2 128-128 on 56x56 72.8 (H100), where products alone would take 34 and 48.
  return overlapped(rounds * item, spec.reference.memory_seconds(bytes_of(p)), model.overlap) + parts +
         1e-6 * model.join_us + 2 * spec.reference.launch_seconds();
}

}  // namespace

CudaHaloWork cuda_halo_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const CudaHaloTile tile = cuda_halo_tile(config.algorithm);
  CudaHaloWork w;
  w.tiles = p.groups * ceil_div(p.k, kHaloBlock) * ceil_div(p.c, kHaloBlock);
  if (!sums_filters(p)) w.tiles = p.groups * ceil_div(halo_written(p), kHaloBlock);
  const ConvSpatial pixels = p.direction == ConvDirection::backward_data ? p.in() : p.out();
  w.boxes_h = ceil_div(pixels[1], std::int64_t{tile.rows});
  w.boxes_w = ceil_div(pixels[2], kHaloBoxColumns);
  if (is_volume(p)) w.slices = pixels[0];
  w.splits = std::clamp<std::int64_t>(spec.reference.sms / w.tiles, 1, w.boxes(p.batch));
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_halo() {
  static const CudaConvChoosing choosing{halo_may_suit, halo_unsuited, halo_is_needless, halo_seconds};
  return choosing;
}

}  // namespace tilesmith
