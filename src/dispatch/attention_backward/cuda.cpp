#include "dispatch/attention_backward/cuda.hpp"

#include "choose/attention_backward/cuda.hpp"
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

Result<std::unique_ptr<AttentionBackwardPlan>> CudaAttentionBackward::plan(const AttentionBackwardProblem& problem,
                                                                           const Candidate& chosen, std::string reason,
                                                                           BuildPolicy build) {
  TS_ASSIGN(const CudaContext* context, CudaContext::of(device_index_));
  TS_ASSIGN(CudaSteps steps, CudaSteps::load(chosen.recipe, [&](const KernelConfig& step, std::size_t) {
              const long shared_bytes = cuda_backward_resources(step).shared_bytes;
              return registry_.find(*context, step, static_cast<std::size_t>(shared_bytes), build);
            }));
  return CudaBackwardPlan::make(problem, plan_info({DeviceKind::cuda, device_index_}, chosen, std::move(reason)),
                                chosen.recipe, spec_, std::move(steps), memory(*context));
}

}  // namespace tilesmith
