#include "tilesmith/dispatcher.hpp"

#include <mutex>

#include "dispatch/attention_problem.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/plan_cache.hpp"

namespace tilesmith {

struct Dispatcher::Impl {
  DispatcherOptions options;
  Result<std::unique_ptr<Backend>> backend;  ///< or why every plan() fails
  PlanCache<AttentionPlan> attention{};
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(new Impl{.options = std::move(options), .backend = fail(ErrorCode::internal, "not opened")}) {
  impl_->backend = open_backend(impl_->options.device, impl_->options.threads);
}

Dispatcher::~Dispatcher() = default;

Device Dispatcher::device() const {
  return impl_->options.device;
}

Result<const AttentionPlan*> Dispatcher::plan(const AttentionProblem& problem) {
  if (const AttentionPlan* known = impl_->attention.find(problem)) return known;
  TS_TRY(validate(problem));
  if (!impl_->backend) return std::unexpected(impl_->backend.error());
  TS_ASSIGN(std::unique_ptr<AttentionPlan> made, choose_plan((*impl_->backend)->attention(), problem, impl_->options));
  return impl_->attention.insert(std::move(made));
}

}  // namespace tilesmith
