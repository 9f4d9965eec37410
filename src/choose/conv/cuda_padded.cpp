#include "choose/conv/cuda_padded.hpp"

#include "choose/conv/cuda_work.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cuda.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kOctetOfPadded = 8, kSectorOfPadded = 16;  // 16 and 32 bytes
constexpr std::int64_t kMostPadded = std::int64_t{1} << 31;       // elements that a copy counts in 32 bits

/// What is filled up becomes whole sectors, so that no row begins within one; of few channels octets, as products with
/// what fills them up take longer then. 3x3 on 40x40 from 104 channels to 96 took 26.4 us where 112 took 19.2, backward
/// data 20.0 and 15.2 (H200).
std::int64_t filled_up(std::int64_t channels) {
  constexpr std::int64_t kFew = 32;
  if (channels % kOctetOfPadded == 0) return channels;
  const std::int64_t unit = channels > kFew ? kSectorOfPadded : kOctetOfPadded;
  return ceil_div(channels, unit) * unit;
}

bool is_backward_weight(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_weight;
}

/// Bytes of an element: a result may be wider than what is read.
std::int64_t bytes_of_element(const ConvProblem& p, bool result) {
  return bits_of(result ? p.type_out : p.data_type) / 8;
}

/// Whether x, w and y are the result.
std::array<bool, 3> result_of(const ConvProblem& p) {
  return {p.direction == ConvDirection::backward_data, is_backward_weight(p), p.direction == ConvDirection::forward};
}

}  // namespace

std::optional<ConvProblem> with_filled_channels(const ConvProblem& p) {
  if (p.unaligned || bits_of(p.data_type) != 16 || is_empty(p) || p.batch == 0) return {};
  if (p.groups > 1 && p.c == 1 && p.k == 1) return {};
  ConvProblem out = p;
  out.c = filled_up(p.c);
  // Kernels write single channels forward.
  if (p.direction != ConvDirection::forward) out.k = filled_up(p.k);
  if (out == p || (p.direction == ConvDirection::backward_data && out.c != p.c && !p.epilogue.empty())) return {};
  for (const std::int64_t elements : padded_elements(p, out))
    if (elements >= kMostPadded) return {};
  return out;
}

std::optional<KernelConfig> padding_kernel(const CudaSpec& spec, DataType type) {
  ConvSignature signature;
  signature.data_type = signature.type_out = signature.type_bias = type;
  signature.spatial_dims = 3;
  std::optional<KernelConfig> copies;
  walk_cuda_conv(spec, signature,
                 [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule* refused) {
                   if (refused == nullptr) copies = config;
                   return !copies;
                 },
                 {.pipeline = [](Pipeline pipeline) { return pipeline == Pipeline::rowwise; }, .config = {}});
  return copies;
}

Recipe padded_recipe(const KernelConfig& copies, const KernelConfig& main, const ConvProblem& p,
                     const ConvProblem& padded) {
  std::vector<Step> steps;
  steps.reserve(3);
  steps.push_back({copies, StepRole::prepare});
  steps.push_back({main});
  const std::array<std::int64_t, 3> copied = padded_elements(p, padded);
  const std::array<bool, 3> result = result_of(p);
  for (std::size_t i = 0; i < copied.size(); ++i)
    if (result[i] && copied[i] > 0) steps.push_back({copies, StepRole::convert});
  return Recipe(std::move(steps));
}

std::array<std::int64_t, 3> padded_elements(const ConvProblem& p, const ConvProblem& padded) {
  const bool c = padded.c != p.c, k = padded.k != p.k;
  return {c ? pixels_of_x(padded) * padded.groups * padded.c : 0,
          c || k ? taps_of(padded) * padded.groups * padded.k * padded.c : 0,
          k ? pixels_of_y(padded) * padded.groups * padded.k : 0};
}

double padding_seconds(const CudaSpec& spec, const ConvProblem& p, const ConvProblem& padded) {
  const std::array<std::int64_t, 3> copied = padded_elements(p, padded);
  const std::array<bool, 3> result = result_of(p);
  double seconds = 0;
  for (const bool back : {false, true}) {  // a launch each
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < copied.size(); ++i)
      if (result[i] == back) bytes += copied[i] * bytes_of_element(p, back);
    // Both sides of a copy, as where runs are added up.
    if (bytes > 0)
      seconds += 1e-6 * spec.conv.join.runs_us + static_cast<double>(2 * bytes) / spec.conv.join.runs_bytes_per_second;
  }
  return seconds;
}

}  // namespace tilesmith
