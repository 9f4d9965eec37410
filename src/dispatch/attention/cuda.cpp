#include "dispatch/attention/cuda.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/attention/cuda_decode.hpp"
#include "choose/attention/whole_rows.hpp"
#include "codegen/copy/cuda.hpp"
#include "dispatch/attention/append_plan.hpp"
#include "dispatch/attention/cuda_append_plan.hpp"
#include "dispatch/attention/cuda_decode_plan.hpp"
#include "dispatch/attention/cuda_plan.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "instances/attention/cuda_resources.hpp"
#include "problem/attention/append.hpp"

namespace tilesmith {

Result<Ranking> CudaAttention::rank(const AttentionProblem& problem) const {
  const auto ranked = [&](const AttentionProblem& of) { return tilesmith::rank(spec_, of); };
  if (!suits_decode(cuda_attention_shape(problem))) return ranked(problem);
  return ranked_.of(at_end_of_block(problem), ranked);
}

Result<std::vector<Refusal>> CudaAttention::refusals(const AttentionProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status CudaAttention::check(const Recipe& recipe, const AttentionProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(spec_, recipe.main(), problem);
}

Result<CudaTileCounters*> CudaAttention::counters(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (counters_ == nullptr) {
    TS_ASSIGN(counters_, CudaTileCounters::create(context));
  }
  return counters_.get();
}

CudaSplitMemory& CudaAttention::split_memory(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (split_memory_ == nullptr) split_memory_ = std::make_unique<CudaSplitMemory>(context);
  return *split_memory_;
}

Result<CudaRowCopier> CudaAttention::copier(const CudaContext& context, BuildPolicy build) {
  TS_ASSIGN(const Source source, cuda_copy_rows_source(spec_));
  TS_ASSIGN(CudaKernel kernel, registry_.find(context, source, build));
  const std::lock_guard lock(mutex_);
  if (copied_rows_ == nullptr) copied_rows_ = std::make_unique<CudaSplitMemory>(context);
  return CudaRowCopier{std::move(kernel), *copied_rows_, spec_};
}

Result<std::unique_ptr<AttentionPlan>> CudaAttention::plan(const AttentionProblem& problem, const Candidate& chosen,
                                                           std::string reason, BuildPolicy build) {
  if (problem.append) {
    TS_ASSIGN(std::unique_ptr<AttentionPlan> attend, plan(attended(problem), chosen, std::move(reason), build));
    if (writes_new_keys(chosen.recipe.main(), cuda_attention_shape(problem)))
      return cuda_append_plan(problem, std::move(attend), append_);
    return append_plan(problem, std::move(attend), append_);
  }
  if (copies_rows(chosen.recipe.main(), problem)) {
    TS_ASSIGN(const CudaContext* device, CudaContext::of(device_index_));
    TS_ASSIGN(const CudaRowCopier copies, copier(*device, build));
    TS_ASSIGN(auto attend, plan(with_whole_rows(problem), chosen, std::move(reason), build));
    return cuda_whole_rows_plan(problem, std::move(attend), copies);
  }
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              const long shared_bytes = cuda_attention_resources(step).shared_bytes;
              return registry_.find(*context, step, static_cast<std::size_t>(shared_bytes), build);
            }));
  if (is_decode(config.algorithm.pipeline))
    return CudaDecodePlan::make(problem, plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason)),
                                config, spec_, std::move(steps), split_memory(*context));
  CudaTileCounters* tile_counters = nullptr;
  if (config.algorithm.dynamic_scheduler) {
    TS_ASSIGN(tile_counters, counters(*context));
  }
  PlanInfo info = plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason));
  if (tile_counters != nullptr) {
    WorkspaceLayout layout;
    layout.add_library_memory("tile counters", CudaTileCounters::kPairBytes);
    layout.tell(info);
  }
  // Where another pipeline's tile is the device's first choice, the slower one is said once, not hidden.
  if (config.algorithm.pipeline != spec_.attention_fwd.front().pipeline)
    log_once(LogLevel::info, info.recipe,
             fmt::format("{} runs on the {} pipeline: tilesmith explain says which rule refuses {}", info.recipe,
                         name_of(config.algorithm.pipeline), name_of(spec_.attention_fwd.front().pipeline)));
  return CudaAttentionPlan::make(problem, std::move(info), config, spec_, std::move(steps), tile_counters);
}

}  // namespace tilesmith
