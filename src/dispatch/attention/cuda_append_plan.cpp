#include "dispatch/attention/cuda_append_plan.hpp"

#include <utility>

#include "dispatch/attention/append_plan.hpp"
#include "dispatch/attention/cuda_decode_plan.hpp"
#include "dispatch/attention/cuda_new_keys.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

PlanInfo info_of(const AttentionPlan& attend) {
  PlanInfo info = attend.info();
  info.steps.insert(info.steps.begin(), PlanStep{.kernel = info.steps.front().kernel,
                                                 .role = "append",
                                                 .what = "new keys and values into the cache, queries turned, by the "
                                                         "blocks that attend, in the same launch"});
  return info;
}

class CudaAppendPlan final : public AttentionPlan {
 public:
  CudaAppendPlan(const AttentionProblem& problem, std::unique_ptr<AttentionPlan> attend,
                 DirectBackend<AppendKvCall>& append)
      : AttentionPlan(problem, info_of(*attend)),
        at_once_(static_cast<const CudaDecodePlan&>(*attend)),
        in_two_(append_plan(problem, std::move(attend), append)) {}

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    if (!new_keys_in_chunks(problem(), arguments)) return in_two_->run(arguments, options);
    TS_TRY(validate(problem(), arguments, device().kind));
    return at_once_.append_and_run(arguments, options);
  }

 private:
  const CudaDecodePlan& at_once_;  // in_two_'s
  std::unique_ptr<AttentionPlan> in_two_;
};

}  // namespace

std::unique_ptr<AttentionPlan> cuda_append_plan(const AttentionProblem& problem, std::unique_ptr<AttentionPlan> attend,
                                                DirectBackend<AppendKvCall>& append) {
  return std::make_unique<CudaAppendPlan>(problem, std::move(attend), append);
}

}  // namespace tilesmith
