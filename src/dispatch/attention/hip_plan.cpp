// The figures of launches are those that stand at the top of kernels/hip/attention/attention_fwd.h.
#include "dispatch/attention/hip_plan.hpp"

#include <cstdint>

#include "dispatch/attention/gpu_arguments.hpp"
#include "dispatch/attention/hip_launch.hpp"

namespace tilesmith {
Result<std::unique_ptr<AttentionPlan>> HipAttentionPlan::make(const AttentionProblem& p, PlanInfo info,
                                                              const KernelConfig& config, const HipSpec& spec,
                                                              const HipKernel& kernel) {
  TS_TRY(check_hip_length("seqlen_q", p.seqlen_q));
  TS_TRY(check_hip_length("seqlen_k", p.seqlen_k));
  TS_ASSIGN(const HipAttentionResources facts, hip_attention_facts(config, spec));
  const std::int64_t row_tiles = (p.seqlen_q + facts.tile_rows - 1) / facts.tile_rows;
  const double blocks = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(row_tiles);
  TS_TRY(check_hip_blocks(blocks, facts.threads));
  std::unique_ptr<HipAttentionPlan> made(new HipAttentionPlan(p, std::move(info), facts, kernel));
  made->row_tiles_ = static_cast<int>(row_tiles);
  made->blocks_ = static_cast<unsigned>(blocks);
  return made;
}

Status HipAttentionPlan::run(const AttentionArguments& a, const RunOptions& options) const {
  const AttentionProblem& p = problem();
  TS_TRY(check_gpu_attention(p, a, DeviceKind::hip));
  if (blocks_ == 0 || !has_queries(p, a)) return {};
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
