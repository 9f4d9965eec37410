// Kernels for few channels and one tap, forward and backward data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_pointwise_work.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/matrix.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kOctet = 8, kColumns = 32;  // channels that a thread has at a time, and a product's

/// As the kernel lays filters out.
std::int64_t filter_bytes(const Algorithm& a, const ConvProblem& p) {
  const std::int64_t columns = ceil_div(written_channels(p), kColumns);
  return 2 * kColumns * a.tile[1] * (p.direction == ConvDirection::forward ? columns : columns | 1);
}

/// Tiles of pixels and of results of all warps, where these pass shared memory.
std::int64_t run_bytes(const Algorithm& a, const ConvProblem& p) {
  if (!pointwise_by_runs(a)) return 0;
  return a.tile[0] * (a.stages * read_channels(p) * 2 + written_channels(p) * (bits_of(p.type_out) / 8));
}

bool has_whole_octets(const ConvProblem& p) {
  return p.c % kOctet == 0 && p.k % kOctet == 0;
}

/// Whether every pixel of the result begins at a sector of memory.
bool writes_whole_sectors(const ConvProblem& p) {
  constexpr std::int64_t kSector = 32;
  return written_channels(p) * p.groups * bits_of(p.type_out) / 8 % kSector == 0;
}

std::optional<std::string> pointwise_unsuited(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const Algorithm& a = config.algorithm;
  const bool runs = pointwise_by_runs(a);
  if (!is_pointwise(p)) return "the filter is no single tap that meets every pixel, or a tensor is unaligned";
  if (read_channels(p) > a.tile[1] || (!runs && !has_whole_octets(p)))
    return fmt::format("reads {}at most {} channels; c {}, k {}", runs ? "" : "whole eights of ", a.tile[1], p.c, p.k);
  if (runs && p.groups > 1) return "pixels of a group are no run of memory";
  const std::int64_t bytes = filter_bytes(a, p) + run_bytes(a, p);
  if (bytes > (runs ? spec.shared_bytes_per_block : cuda_conv_resources(config).shared_bytes))
    return fmt::format("filters{} take {} bytes of shared memory", runs ? " and runs" : "", bytes);
  return {};
}

/// A problem's kernels are those of no more channels than it needs; runs serve what octets do not, and results that
/// octets would leave in parts of sectors.
bool pointwise_is_needless(const KernelConfig& config, const ConvProblem& p) {
  return ceil_div(read_channels(p), kColumns) * kColumns < config.algorithm.tile[1] ||
         (pointwise_by_runs(config.algorithm) && has_whole_octets(p) && writes_whole_sectors(p));
}

/// Bytes that memory moves. Where results are an odd number of octets, every other pixel begins within a sector, and a
/// warp's part of it ends within one: 32-232 on 89x89, 30 images, took 88.4 us for 41.9 without that, 8-88 on 188x188
/// 13.3 for 9.3 (H200).
double moved_bytes(const CudaConvPointwiseModel& model, const Algorithm& a, const ConvProblem& p) {
  const std::int64_t of_pixel = written_channels(p) * p.groups * bits_of(p.type_out) / 8;
  const double again = writes_whole_sectors(p) || pointwise_by_runs(a) ? 0 : model.straddle;
  return bytes_of(p) + again * static_cast<double>(pixels_of_y(p) * of_pixel);
}

double pointwise_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec, const ConvProblem& p) {
  return cuda_pointwise_work(config, spec, p).seconds;
}

}  // namespace

CudaPointwiseWork cuda_pointwise_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& p) {
  const Algorithm& a = config.algorithm;
  const CudaConvPointwiseModel& model = spec.conv.models.pointwise;
  CudaPointwiseWork w;
  const std::int64_t filters = filter_bytes(a, p);
  w.shared_bytes = filters + run_bytes(a, p);
  const std::int64_t resident =
      std::clamp<std::int64_t>(spec.shared_bytes_per_sm / (w.shared_bytes + spec.shared_bytes_reserved), 1,
                               cuda_conv_resources(config).blocks_per_sm);
  const std::int64_t places = spec.reference.sms * resident, tiles = ceil_div(pixels_of_y(p), std::int64_t{a.tile[0]});
  // All blocks run at a time, as long as groups are no more than places.
  w.parts = std::clamp<std::int64_t>(places / p.groups, 1, tiles);
  const auto rounds = static_cast<double>(ceil_div(tiles, w.parts));
  const auto of_sm = static_cast<double>(ceil_div(w.parts * p.groups, std::int64_t{spec.reference.sms}));
  const double products =
      a.tile[0] / 16.0 * (a.tile[1] / 32.0) * static_cast<double>(ceil_div(written_channels(p), kColumns));
  const double cycles =
      of_sm * (rounds * model.product_cycles * products + model.filter_cycles * static_cast<double>(filters) / 16);
  const double under_way = of_sm * a.stages * a.tile[0] * static_cast<double>(2 * read_channels(p));
  const double memory = model.memory * (1 + model.under_way_bytes / under_way);
  w.seconds =
      spec.reference.launch_seconds() + 1e-6 * model.begin_us +
      std::hypot(1e-9 * cycles / model.clock_ghz, memory * spec.reference.memory_seconds(moved_bytes(model, a, p)));
  return w;
}

const CudaConvChoosing& cuda_conv_choosing_pointwise() {
  static const CudaConvChoosing choosing{is_pointwise, pointwise_unsuited, pointwise_is_needless, pointwise_seconds};
  return choosing;
}

}  // namespace tilesmith
