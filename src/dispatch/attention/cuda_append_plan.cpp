#include "dispatch/attention/cuda_append_plan.hpp"

#include <utility>

#include "dispatch/attention/cuda_decode_plan.hpp"
#include "dispatch/attention/cuda_new_keys.hpp"
#include "problem/attention/append.hpp"
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
      : AttentionPlan(problem, info_of(*attend)), attend_(std::move(attend)), append_(append) {}

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments, device().kind));
    if (new_keys_in_chunks(problem(), arguments))
      return static_cast<const CudaDecodePlan&>(*attend_).append_and_run(arguments, options);
    TS_TRY(append_.run(append_of(problem(), arguments, device().kind), options));
    return attend_->run(attended(problem(), arguments), options);
  }

 private:
  std::unique_ptr<AttentionPlan> attend_;
  DirectBackend<AppendKvCall>& append_;
};

}  // namespace

std::unique_ptr<AttentionPlan> cuda_append_plan(const AttentionProblem& problem, std::unique_ptr<AttentionPlan> attend,
                                                DirectBackend<AppendKvCall>& append) {
  return std::make_unique<CudaAppendPlan>(problem, std::move(attend), append);
}

}  // namespace tilesmith
