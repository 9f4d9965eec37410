// The figures of launches are those that stand at the top of kernels/hip/attention/attention_fwd.h.
#include "dispatch/attention/hip_plan.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "dispatch/attention/gpu_arguments.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostThreads = std::numeric_limits<std::uint32_t>::max();  // of HIP's launches, in all

}  // namespace

Result<std::unique_ptr<AttentionPlan>> HipAttentionPlan::make(const AttentionProblem& p, PlanInfo info,
                                                              const KernelConfig& config, const HipSpec& spec,
                                                              const HipKernel& kernel) {
  for (const auto& [name, value] : {std::pair{"seqlen_q", p.seqlen_q}, std::pair{"seqlen_k", p.seqlen_k}})
    if (value > kLongestOfGpu)
      return fail(ErrorCode::unsupported, fmt::format("{} {} is beyond a kernel's launch", name, value),
                  fmt::format("at most {}", kLongestOfGpu));
  const HipFragment* fragment = spec.fragment(p.data_type, config.algorithm.warp[0]);
  if (fragment == nullptr)
    return fail(ErrorCode::internal, fmt::format("{} has no such instruction", spec.arch.text()));
  const HipAttentionResources facts = hip_attention_resources(config, spec, *fragment);
  const std::int64_t row_tiles = (p.seqlen_q + facts.tile_rows - 1) / facts.tile_rows;
  const double blocks = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(row_tiles);
  if (blocks * facts.threads > static_cast<double>(kMostThreads))
    return fail(ErrorCode::unsupported, fmt::format("{:.0f} tiles are beyond a launch", blocks),
                fmt::format("at most {}", kMostThreads / facts.threads));
  std::unique_ptr<HipAttentionPlan> made(new HipAttentionPlan(p, std::move(info), facts, kernel));
  made->row_tiles_ = static_cast<int>(row_tiles);
  made->blocks_ = static_cast<unsigned>(blocks);
  return made;
}

Status HipAttentionPlan::run(const AttentionArguments& a, const RunOptions& options) const {
  const AttentionProblem& p = problem();
  TS_TRY(check_gpu_attention(p, a, DeviceKind::hip));
  if (blocks_ == 0) return {};
  auto arguments = gpu_attention_arguments<TsHipAttentionArgs>(p, a);
  arguments.group = static_cast<int>(p.heads_q / p.heads_kv);
  arguments.row_tiles = row_tiles_;
  arguments.pieces = 1;
  void* const parameters[] = {&arguments};
  return launch(kernel_,
                {.blocks = blocks_,
                 .threads = static_cast<unsigned>(facts_.threads),
                 .stream = static_cast<hip::Stream>(options.stream)},
                parameters);
}

}  // namespace tilesmith
