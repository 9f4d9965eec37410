// Kernels for few channels, forward and backward data.
#include <fmt/format.h>

#include <numeric>

#include "choose/conv/cuda_direct_work.hpp"
#include "choose/conv/cuda_pipelines.hpp"
#include "choose/conv/cuda_work.hpp"
#include "instances/conv/cuda_resources.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostChannelsOfDirect = 128, kMostColumnsOfPhases = 64;

/// Whether the channels of all phases are few columns, of neighbouring pixels, which the kernels with a product for
/// each phase do not have as they are. Not of groups: 16 bytes of a pixel were read for each (32 groups of 8 with a
/// stride of 2: 3.8 times as long as by the kernels of small groups, H200).
bool phases_may_be_columns(const ConvProblem& p) {
  const std::int64_t columns = cuda_phase_columns(p);
  return p.direction == ConvDirection::backward_data && p.groups == 1 && p.dilation() == ConvSpatial{1, 1, 1} &&
         columns <= kMostColumnsOfPhases && (columns > p.c || p.c % 4 != 0);
}

/// The widest copies that channels permit; 0 where they are no whole 8 bytes. Backward data copies w along x's
/// channels, unless it reads it by elements.
int read_together(const ConvProblem& p, bool all_phases) {
  if (p.unaligned) return 0;
  const std::int64_t common = p.direction == ConvDirection::forward ? p.c : all_phases ? p.k : std::gcd(p.c, p.k);
  return common % 8 == 0 ? 8 : common % 4 == 0 ? 4 : 0;
}

bool direct_may_suit(const ConvProblem& p) {
  return read_channels(p) <= kMostChannelsOfDirect && read_together(p, phases_may_be_columns(p)) > 0;
}

std::optional<std::string> direct_unsuited(const KernelConfig& config, const CudaSpec&, const ConvProblem& p) {
  const bool all_phases = cuda_direct_has_all_phases(config.algorithm);
  if (!direct_may_suit(p) || read_together(p, all_phases) < config.algorithm.vector[0])
    return fmt::format("reads {} elements of at most {} channels; c {}, k {}, unaligned {}", config.algorithm.vector[0],
                       kMostChannelsOfDirect, p.c, p.k, p.unaligned);
  if (all_phases && (!phases_may_be_columns(p) || cuda_phase_columns(p) > config.algorithm.tile[1]))
    return fmt::format(
        "the channels of all phases are at most {} columns, of one group without dilation; {} groups, {} columns",
        config.algorithm.tile[1], p.groups, cuda_phase_columns(p));
  const CudaConvResources facts = cuda_conv_resources(config);
  if (facts.pairs && !cuda_conv_access(p).pairs) return fmt::format("writes pairs; {} channels", written_channels(p));
  if (p.batch == 0) return "no images";
  if (const std::int64_t bytes = cuda_direct_least_bytes(config.algorithm, p); bytes > facts.shared_bytes)
    return fmt::format("filters of {} taps and {} channels, and the pixels of a result, take {} bytes of shared memory",
                       taps_of(p), read_channels(p), bytes);
  return {};
}

/// A problem's kernels have the widest accesses, and no more columns than its channels fill.
bool direct_is_needless(const KernelConfig& config, const ConvProblem& p) {
  const std::int64_t columns = config.algorithm.tile[1];
  const bool all_phases = cuda_direct_has_all_phases(config.algorithm);
  if (read_together(p, all_phases) != config.algorithm.vector[0]) return true;
  if (all_phases) return columns > kEightColumns && cuda_phase_columns(p) <= columns / 2;
  constexpr int kFewestColumns = 16;
  return cuda_conv_resources(config).pairs != cuda_conv_access(p).pairs ||
         (columns > kFewestColumns && written_channels(p) <= columns / 2);
}

double direct_seconds(const KernelConfig& config, const CudaGemmTile&, const CudaSpec& spec, const ConvProblem& p) {
  return cuda_direct_work(config, spec, p).seconds;
}

}  // namespace

const CudaConvChoosing& cuda_conv_choosing_direct() {
  static const CudaConvChoosing choosing{direct_may_suit, direct_unsuited, direct_is_needless, direct_seconds};
  return choosing;
}

}  // namespace tilesmith
