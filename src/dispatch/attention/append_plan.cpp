#include "dispatch/attention/append_plan.hpp"

#include <utility>

#include "problem/attention/append.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

PlanInfo info_of(const AttentionPlan& attend) {
  PlanInfo info = attend.info();
  tell_append(info);
  return info;
}

class AppendPlan final : public AttentionPlan {
 public:
  AppendPlan(const AttentionProblem& problem, std::unique_ptr<AttentionPlan> attend,
             DirectBackend<AppendKvCall>& append)
      : AttentionPlan(problem, info_of(*attend)), attend_(std::move(attend)), append_(append) {}

  [[nodiscard]] Status run(const AttentionArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments, device().kind));
    TS_TRY(append_.run(append_of(problem(), arguments, device().kind), options));
    return attend_->run(attended(problem(), arguments), options);
  }

 private:
  std::unique_ptr<AttentionPlan> attend_;
  DirectBackend<AppendKvCall>& append_;
};

}  // namespace

void tell_append(PlanInfo& info) {
  info.steps.insert(info.steps.begin(), PlanStep{.kernel = std::string(AppendKvCall::kName),
                                                 .role = "append",
                                                 .what = "new keys and values into the cache, queries turned"});
}

std::unique_ptr<AttentionPlan> append_plan(const AttentionProblem& problem, std::unique_ptr<AttentionPlan> attend,
                                           DirectBackend<AppendKvCall>& append) {
  return std::make_unique<AppendPlan>(problem, std::move(attend), append);
}

}  // namespace tilesmith
