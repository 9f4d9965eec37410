#include "dispatch/plan.hpp"

#include "base/error.hpp"
#include "dispatch/attention_problem.hpp"

namespace tilesmith {

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;

const AttentionProblem& Plan::problem() const {
  return impl_->problem;
}
std::string_view Plan::kernel_name() const {
  return impl_->kernel_name;
}
std::span<const PlanStage> Plan::stages() const {
  return impl_->stages;
}
std::string_view Plan::reason() const {
  return impl_->reason;
}
std::size_t Plan::workspace_bytes() const {
  return impl_->workspace_bytes;
}

Status Plan::run(const AttentionArguments& arguments, void* workspace) const {
  const Impl& plan = *impl_;
  TS_TRY(validate(plan.problem, arguments));
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    thread_local AlignedBuffer own;
    own.reserve(plan.workspace_bytes);
    workspace = own.data();
  }
  const TsAttentionArgs args = cpu_arguments(plan.problem, arguments, plan.splits, workspace);
  plan.pool->run(plan.kernel.table(), &args);
  return {};
}

}  // namespace tilesmith
