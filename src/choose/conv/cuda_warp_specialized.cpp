#include <fmt/format.h>

#include <algorithm>

#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_window.hpp"
#include "choose/conv/cuda_work.hpp"
#include "choose/gemm/cuda_model.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda.hpp"
#include "instances/conv/cuda_window.hpp"
#include "instances/gemm/cuda_resources.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kStepChannels = 64;
/// A tile of which channels are missing takes so much longer: the copy engine fills in zeros, and is slow at that. 3x3
/// 64-64 on 56x56 took 283 us in tiles of 128 channels and 163 in tiles of 64 (H200).
constexpr double kCutCost = 0.7;

std::int64_t read_channels(const ConvProblem& p) {
  return p.direction == ConvDirection::forward ? p.c : p.k;
}
std::int64_t written_channels(const ConvProblem& p) {
  return p.direction == ConvDirection::forward ? p.k : p.c;
}

/// Elements of the result's pixels that are written together.
std::int64_t widest_store(const ConvProblem& p) {
  const std::int64_t wide = 128 / bits_of(p.type_out), written = written_channels(p);
  return written % wide == 0 ? wide : written % 2 == 0 ? 2 : 1;
}

std::optional<std::string> window_unsuited(const KernelConfig& config, const ConvProblem& problem) {
  const auto& s = std::get<ConvSignature>(config.signature);
  if (config.algorithm.vector[2] > widest_store(problem))
    return fmt::format("writes {} elements; {} channels", config.algorithm.vector[2], written_channels(problem));
  return cuda_window_obstacle(problem, s.spatial_dims);
}

bool window_is_needless(const KernelConfig& config, const ConvProblem& problem) {
  return config.algorithm.vector[2] != widest_store(problem) ||
         std::get<ConvSignature>(config.signature).spatial_dims != cuda_conv_dimensions(problem);
}

double window_seconds(const KernelConfig& config, const CudaGemmTile& row, const CudaSpec& spec,
                      const ConvProblem& problem) {
  const CudaGemmShape shape = cuda_window_shape(problem);
  const CudaGemmWork work = cuda_window_work(config, spec, problem);
  const KernelConfig gemm = gemm_of_window(config);
  const auto columns = static_cast<double>(ceil_div(shape.n, std::int64_t{config.algorithm.tile[1]}));
  const double cut = shape.n % config.algorithm.tile[1] == 0 ? 1 : 1 + kCutCost / columns;
  const double item = cut * cuda_gemm_item_seconds(gemm, &row, spec, shape, work.splits);
  const double rounds = static_cast<double>(ceil_div(work.items, cuda_gemm_places(gemm, spec)));
  const double memory = bytes_of(problem) / (spec.reference.bytes_per_second * spec.reference.reached_bandwidth);
  return 1e-6 * spec.reference.launch_us + std::max(rounds * item, memory);
}

}  // namespace

std::array<CudaConvWindow, 3> cuda_conv_windows(const ConvProblem& p) {
  std::array<CudaConvWindow, 3> windows;
  for (std::size_t d = 0; d < 3; ++d) {
    CudaConvWindow& w = windows[d];
    w.reach = (p.filter()[d] - 1) * p.dilation()[d];
    if (p.direction == ConvDirection::forward) {
      w.pixels = p.in()[d];
      w.places = p.out()[d];
      w.lower = -p.pad()[d];
      w.step = p.stride()[d];
      w.tap_step = p.dilation()[d];
    } else {  // dx[i] is the sum of dy[i + pad - tap * dilation]
      w.pixels = p.out()[d];
      w.places = p.in()[d];
      w.lower = p.pad()[d] - w.reach;
      w.offset = w.reach;
      w.tap_step = -p.dilation()[d];
    }
  }
  return windows;
}

CudaGemmShape cuda_window_shape(const ConvProblem& p) {
  CudaGemmShape shape;
  shape.m = p.direction == ConvDirection::forward ? pixels_of_y(p) : pixels_of_x(p);
  shape.n = written_channels(p);
  shape.k = taps_of(p) * ceil_div(read_channels(p), kStepChannels) * kStepChannels;
  shape.batch = p.groups;
  return shape;
}

CudaGemmWork cuda_window_work(const KernelConfig& config, const CudaSpec& spec, const ConvProblem& problem) {
  CudaGemmWork work =
      cuda_gemm_work(gemm_of_window(config), cuda_conv_row(config, spec), spec, cuda_window_shape(problem));
  work.b_first = work.late_launch_dependents = false;  // found for GEMM's copies
  return work;
}

std::optional<std::string> cuda_window_obstacle(const ConvProblem& p, int spatial_dims) {
  constexpr std::int64_t kMostSteps = 8;
  constexpr std::array<std::int64_t, 3> kMostOffset{65535, 255, 31};  // of a map of one, two and three coordinates
  constexpr std::array<std::int64_t, 3> kCorner{1 << 15, 1 << 7, 1 << 4};
  const std::int64_t read = read_channels(p);
  if (p.unaligned || read % 8 != 0 || (p.direction == ConvDirection::backward_data && p.c % 8 != 0))
    return fmt::format("copies are of 16 bytes; c {}, k {}, unaligned {}", p.c, p.k, p.unaligned);
  if (p.groups > 1 && read % kStepChannels != 0)
    return fmt::format("a step of {} channels would read the next group's; groups {} of {} channels", kStepChannels,
                       p.groups, read);
  if (p.batch == 0) return "no images";
  const auto windows = cuda_conv_windows(p);
  const auto of_dims = static_cast<std::size_t>(spatial_dims - 1);
  for (std::size_t d = 0; d < 3; ++d) {
    const CudaConvWindow& w = windows[d];
    if (p.direction == ConvDirection::backward_data && p.stride()[d] != 1)
      return fmt::format("places of backward data are a pixel apart; stride {}", p.stride()[d]);
    if (w.step > kMostSteps || w.reach >= kMostOffset[of_dims] || w.lower < -kCorner[of_dims] ||
        w.lower >= kCorner[of_dims] || w.upper() < -kCorner[of_dims] || w.upper() >= kCorner[of_dims])
      return fmt::format(
          "windows of {} coordinates: steps {} of at most {}, offsets {} below {}, from {} to {} within {}",
          spatial_dims, w.step, kMostSteps, w.reach, kMostOffset[of_dims], w.lower, w.upper(), kCorner[of_dims]);
  }
  return {};
}

const CudaConvChoosing& cuda_conv_choosing_warp_specialized() {
  static const CudaConvChoosing choosing{window_unsuited, window_is_needless, window_seconds};
  return choosing;
}

}  // namespace tilesmith
