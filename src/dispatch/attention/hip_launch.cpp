#include "dispatch/attention/hip_launch.hpp"

#include <fmt/format.h>

#include <limits>

#include "dispatch/attention/gpu_arguments.hpp"

namespace tilesmith {

Status check_hip_length(const char* name, std::int64_t value) {
  if (value <= kLongestOfGpu) return {};
  return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a kernel's launch", name, value),
              fmt::format("at most {}", kLongestOfGpu));
}

Status check_hip_blocks(double blocks, int threads) {
  constexpr auto kMostThreads = std::numeric_limits<std::uint32_t>::max();  // of HIP's launches, in all
  if (blocks * threads <= static_cast<double>(kMostThreads)) return {};
  return fail(ErrorCode::unsupported, fmt::format("{:.0f} blocks of threads are beyond a launch", blocks),
              fmt::format("at most {}", kMostThreads / static_cast<std::uint32_t>(threads)));
}

Result<HipAttentionResources> hip_attention_facts(const KernelConfig& config, const HipSpec& spec) {
  const HipFragment* fragment = spec.fragment(config.attention().data_type, config.algorithm.warp[0]);
  if (fragment == nullptr)
    return fail(ErrorCode::internal, fmt::format("{} has no such instruction", spec.arch.text()));
  return hip_attention_resources(config, spec, *fragment);
}

}  // namespace tilesmith
