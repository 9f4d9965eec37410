#include "tilesmith/dispatcher.hpp"

#include <fmt/format.h>

#include "dispatch/backend.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/gemm/list.hpp"
#include "dispatch/plan_cache.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

struct Dispatcher::Impl {
  DispatcherOptions options;
  Result<std::unique_ptr<Backend>> backend;  ///< or why every plan() fails
  PlanCache<AttentionPlan> attention{};
  PlanCache<GemmPlan> gemm{};

  /// `operation` finds the operation in a backend.
  template <class PlanT, class Operation>
  Result<const PlanT*> plan(PlanCache<PlanT>& cache, Operation operation, const typename PlanT::Problem& problem) {
    if (const PlanT* known = cache.find(problem)) return known;
    TS_TRY(validate(problem));
    if (!backend) return std::unexpected(backend.error());
    OperationBackend<PlanT>* kernels = operation(**backend);
    if (kernels == nullptr)
      return fail(ErrorCode::unsupported,
                  fmt::format("{} has no kernels of this operation", to_string(options.device)));
    TS_ASSIGN(std::unique_ptr<PlanT> made, choose_plan(*kernels, problem, options));
    return cache.insert(std::move(made));
  }

  /// The device's kernels of matrix products.
  Result<GemmBackend*> gemm_backend() {
    if (!backend) return std::unexpected(backend.error());
    if (GemmBackend* kernels = (*backend)->gemm()) return kernels;
    return fail(ErrorCode::unsupported, fmt::format("{} has no kernels of this operation", to_string(options.device)));
  }

  /// The same, for a problem whose B is to be packed.
  Result<GemmBackend*> packing_backend(const GemmProblem& problem) {
    TS_TRY(validate(packing_of(problem)));
    return gemm_backend();
  }
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
  return impl_->plan(
      impl_->attention, [](Backend& backend) { return &backend.attention(); }, problem);
}

Result<const GemmPlan*> Dispatcher::plan(const GemmProblem& problem) {
  return impl_->plan(
      impl_->gemm, [](Backend& backend) { return backend.gemm(); }, problem);
}

Result<std::size_t> Dispatcher::packed_b_bytes(const GemmProblem& problem) {
  TS_ASSIGN(GemmBackend* const kernels, impl_->packing_backend(problem));
  return kernels->packed_b_bytes(packing_of(problem), impl_->options.build);
}

Status Dispatcher::pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed) {
  TS_ASSIGN(GemmBackend* const kernels, impl_->packing_backend(problem));
  TS_ASSIGN(const std::size_t bytes, kernels->packed_b_bytes(packing_of(problem), impl_->options.build));
  TS_TRY(validate_packing(problem, b, packed, bytes));
  return kernels->pack_b(packing_of(problem), b, packed, impl_->options.build);
}

Result<std::unique_ptr<const GemmListPlan>> Dispatcher::plan(std::span<const GemmProblem> problems) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Status status =
        problems[i].grouping == GemmGrouping::none
            ? validate(problems[i])
            : fail(ErrorCode::unsupported, "its batch is groups", "a call of its own, or a product for each group");
    if (!status) return std::unexpected(of_product(status.error(), i, problems.size()));
  }
  TS_ASSIGN(GemmBackend* const kernels, impl_->gemm_backend());
  return kernels->plan_list(
      {problems.begin(), problems.end()}, [this](const GemmProblem& problem) { return plan(problem); }, impl_->options);
}

}  // namespace tilesmith
