// The figures of launches are those that stand at the top of kernels/hip/attention/attention_fwd.h and join.h.
#include "dispatch/attention/hip_decode_plan.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "dispatch/attention/gpu_arguments.hpp"
#include "dispatch/attention/hip_launch.hpp"
#include "dispatch/workspace.hpp"
#include "kernels/hip/attention/abi.h"
#include "problem/attention/pages.hpp"

namespace tilesmith {

Result<std::unique_ptr<AttentionPlan>> HipDecodePlan::make(const AttentionProblem& p, PlanInfo info,
                                                           const KernelConfig& config, const HipSpec& spec,
                                                           std::vector<HipKernel> kernels, HipSplitMemory& memory) {
  TS_TRY(check_hip_length("queries of a key head", p.seqlen_q * (p.heads_q / p.heads_kv)));
  TS_TRY(check_hip_length("seqlen_k", p.seqlen_k));
  TS_ASSIGN(const HipAttentionResources facts, hip_attention_facts(config, spec));
  const HipDecodeWork work = hip_decode_work(config, spec, p);
  TS_TRY(check_hip_blocks(static_cast<double>(work.items) * static_cast<double>(work.pieces), facts.threads));
  TS_TRY(check_hip_blocks(static_cast<double>(work.items) * facts.tile_rows, spec.lanes_per_wave));
  std::size_t partial_bytes = 0;
  if (work.pieces > 1) {
    partial_bytes =
        static_cast<std::size_t>(work.items * work.pieces * facts.tile_rows * (p.head_dim_v + TS_HIP_STATE_FLOATS) * 4);
    WorkspaceLayout layout;
    layout.add("partials", partial_bytes);
    layout.tell(info);
  }
  std::unique_ptr<HipDecodePlan> made(new HipDecodePlan(p, std::move(info), facts, std::move(kernels), memory));
  made->work_ = work;
  made->partial_bytes_ = partial_bytes;
  made->join_threads_ = static_cast<unsigned>(spec.lanes_per_wave);
  return made;
}

Status HipDecodePlan::run(const AttentionArguments& a, const RunOptions& options) const {
  const AttentionProblem& p = problem();
  TS_TRY(check_gpu_attention(p, a, DeviceKind::hip));
  if (!has_queries(p, a)) return {};
  const auto stream = static_cast<hip::Stream>(options.stream);
  auto arguments = gpu_attention_arguments<TsHipAttentionArgs>(p, a);
  arguments.group = static_cast<int>(p.heads_q / p.heads_kv);
  arguments.row_tiles = static_cast<int>(work_.row_tiles);
  arguments.piece_tiles = static_cast<int>(work_.piece_tiles);
  arguments.pieces = static_cast<int>(work_.pieces);
  const auto scale = [](const AttentionScale& s) { return TsScale{s.data, s.batch, s.head, s.block}; };
  arguments.k_scale = scale(a.k_scale);
  arguments.v_scale = scale(a.v_scale);
  if (p.latent) {
    arguments.v = arguments.k;
    arguments.v_strides = arguments.k_strides;
    arguments.v_scale = arguments.k_scale;
  }
  if (p.page_size > 0) {
    arguments.paged = paged_keys(p, a.pages);
    divide_by_page(p.page_size, arguments);
    if (lists_no_page(a.pages)) arguments.seqlen_k = 0;  // lengths are cut to it
  }
  if (partial_bytes_ > 0) {
    TS_TRY(check_workspace(options.workspace));
    arguments.partials = static_cast<float*>(options.workspace);
    if (options.workspace == nullptr) {
      TS_ASSIGN(arguments.partials, memory_.of(stream, partial_bytes_));
    }
  }
  void* const parameters[] = {&arguments};
  TS_TRY(launch(kernels_[0],
                {.blocks = static_cast<unsigned>(work_.items * work_.pieces),
                 .threads = static_cast<unsigned>(facts_.threads),
                 .stream = stream},
                parameters));
  if (work_.pieces == 1) return {};
  return launch(
      kernels_[1],
      {.blocks = static_cast<unsigned>(work_.items * facts_.tile_rows), .threads = join_threads_, .stream = stream},
      parameters);
}

}  // namespace tilesmith
