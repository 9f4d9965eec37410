#include "tilesmith/dispatcher.hpp"

#include <fmt/format.h>

#include "base/env.hpp"
#include "base/log.hpp"
#include "choose/tuning_file.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/gemm/list.hpp"
#include "dispatch/plan_cache.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {

namespace {

template <class Tuple>
struct CachesOf;
template <class... Ops>
struct CachesOf<std::tuple<Ops...>> : std::type_identity<std::tuple<PlanCache<PlanFor<Ops>>...>> {};

}  // namespace

struct Dispatcher::Impl {
  DispatcherOptions options;
  Result<std::unique_ptr<Backend>> backend;  ///< or why every plan() fails
  MeasuredTable measured{};                  ///< of the tuning file, for this device's class
  CachesOf<RecipeOperations>::type caches{};

  /// What the device brings for the operation. Errors: why there is no device; unsupported.
  template <class Op>
  Result<BackendOf<Op>*> find() {
    if (!backend) return std::unexpected(backend.error());
    return (*backend)->template find<Op>();
  }

  template <class Op>
  Result<const PlanFor<Op>*> plan(const typename Op::Problem& problem, const DispatcherOptions& under) {
    auto& cache = std::get<PlanCache<PlanFor<Op>>>(caches);
    if (const PlanFor<Op>* known = cache.find(problem)) return known;
    TS_TRY(validate(problem));
    TS_ASSIGN(BackendOf<Op>* const kernels, find<Op>());
    TS_ASSIGN(std::unique_ptr<PlanFor<Op>> made, choose_plan<Op>(*kernels, problem, under, measured));
    log_debug("planned {} on {}: {}", made->kernel_name(), to_string(made->device()), made->reason());
    return cache.insert(std::move(made));
  }

  /// A tuning file that cannot be read fails every plan: a process that silently chose otherwise than its peers would
  /// be found much later.
  Status read_tuning() {
    const std::string path = options.tuning.empty() ? env("TILESMITH_TUNING").value_or("") : options.tuning;
    if (path.empty() || !backend) return {};
    TS_ASSIGN(const TuningFile file, TuningFile::read(path));
    measured = file.table_for((*backend)->device_class());
    if (measured.empty())
      log_once(LogLevel::warn, path,
               fmt::format("{} has no choices for this device ({})", path, (*backend)->device_class()));
    return {};
  }

  /// The plan that packs a problem's B. A kernel asked for by name is the one that computes, not the one that packs.
  Result<const GemmPackBPlan*> packing(const GemmProblem& problem) {
    DispatcherOptions any_kernel = options;
    any_kernel.kernel.clear();
    return plan<GemmPackB>(pack_b_problem(problem), any_kernel);
  }
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(new Impl{.options = std::move(options), .backend = fail(ErrorCode::internal, "not opened")}) {
  if (Status environment = check_environment(); !environment) {
    impl_->backend = std::unexpected(std::move(environment).error());
    return;
  }
  impl_->backend = open_backend(impl_->options.device, impl_->options.threads);
  if (const Status tuned = impl_->read_tuning(); !tuned) impl_->backend = std::unexpected(tuned.error());
}

Dispatcher::~Dispatcher() = default;

Device Dispatcher::device() const {
  return impl_->options.device;
}

Result<const AttentionPlan*> Dispatcher::plan(const AttentionProblem& problem) {
  return impl_->plan<AttentionFwd>(problem, impl_->options);
}

Result<const GemmPlan*> Dispatcher::plan(const GemmProblem& problem) {
  return impl_->plan<Gemm>(problem, impl_->options);
}

Result<std::size_t> Dispatcher::packed_b_bytes(const GemmProblem& problem) {
  TS_ASSIGN(const GemmPackBPlan* const plan, impl_->packing(problem));
  return plan->packed_bytes();
}

Status Dispatcher::pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed) {
  TS_ASSIGN(const GemmPackBPlan* const plan, impl_->packing(problem));
  return plan->run({.b = b, .packed = packed});
}

Result<std::unique_ptr<const GemmListPlan>> Dispatcher::plan(std::span<const GemmProblem> problems) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Status status =
        problems[i].grouping == GemmGrouping::none
            ? validate(problems[i])
            : fail(ErrorCode::unsupported, "its batch is groups", "a call of its own, or a product for each group");
    if (!status) return std::unexpected(of_product(status.error(), i, problems.size()));
  }
  TS_ASSIGN(ListBackend<Gemm>* const kernels, impl_->find<ListOf<Gemm>>());
  return kernels->plan(
      {problems.begin(), problems.end()}, [this](const GemmProblem& problem) { return plan(problem); }, impl_->options);
}

}  // namespace tilesmith
