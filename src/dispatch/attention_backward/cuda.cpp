#include "dispatch/attention_backward/cuda.hpp"

#include "choose/attention/whole_rows.hpp"
#include "choose/attention_backward/cuda.hpp"
#include "codegen/copy/cuda.hpp"
#include "dispatch/attention_backward/cuda_plan.hpp"
#include "dispatch/plan_info.hpp"
#include "instances/attention_backward/cuda_resources.hpp"

namespace tilesmith {

Result<Ranking> CudaAttentionBackward::rank(const AttentionBackwardProblem& problem) const {
  return tilesmith::rank(spec_, problem);
}

Result<std::vector<Refusal>> CudaAttentionBackward::refusals(const AttentionBackwardProblem& problem) const {
  return tilesmith::refusals(spec_, problem);
}

Status CudaAttentionBackward::check(const Recipe& recipe, const AttentionBackwardProblem& problem) const {
  return serves(spec_, recipe, problem);
}

CudaSplitMemory& CudaAttentionBackward::memory(const CudaContext& context) {
  const std::lock_guard lock(mutex_);
  if (memory_ == nullptr) memory_ = std::make_unique<CudaSplitMemory>(context);
  return *memory_;
}

Result<CudaRowCopier> CudaAttentionBackward::copier(const CudaContext& context, BuildPolicy build) {
  TS_ASSIGN(const Source source, cuda_copy_rows_source(spec_));
  TS_ASSIGN(CudaKernel kernel, registry_.find(context, source, build));
  const std::lock_guard lock(mutex_);
  if (copied_rows_ == nullptr) copied_rows_ = std::make_unique<CudaSplitMemory>(context);
  return CudaRowCopier{std::move(kernel), *copied_rows_, spec_};
}

Result<std::unique_ptr<AttentionBackwardPlan>> CudaAttentionBackward::plan(const AttentionBackwardProblem& problem,
                                                                           const Candidate& chosen, std::string reason,
                                                                           BuildPolicy build) {
  if (copies_rows(chosen.recipe.main(), problem)) {
    TS_ASSIGN(const CudaContext* device, CudaContext::of(device_index_));
    TS_ASSIGN(const CudaRowCopier copies, copier(*device, build));
    TS_ASSIGN(auto attend, plan(with_whole_rows(problem), chosen, std::move(reason), build));
    return cuda_whole_rows_plan(problem, std::move(attend), copies);
  }
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              const long shared_bytes = cuda_backward_resources(step).shared_bytes;
              return registry_.find(*context, step, static_cast<std::size_t>(shared_bytes), build);
            }));
  return CudaBackwardPlan::make(problem, plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason)),
                                chosen.recipe, spec_, std::move(steps), memory(*context));
}

}  // namespace tilesmith
