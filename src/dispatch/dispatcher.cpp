#include "tilesmith/dispatcher.hpp"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>

#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/uncancelled.hpp"
#include "choose/determinism.hpp"
#include "choose/tuning_file.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/gemm/list.hpp"
#include "dispatch/plan_cache.hpp"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "problem/conv/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/line.hpp"
#include "problem/serving/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

namespace {

constexpr int kMostThreads = 4096;  // more than any machine has; each takes a stack

template <class Tuple>
struct CachesOf;
template <class... Ops>
struct CachesOf<std::tuple<Ops...>> : std::type_identity<std::tuple<PlanCache<PlanFor<Ops>>...>> {};

Status check(const DispatcherOptions& options) {
  if (options.threads >= 0 && options.threads <= kMostThreads) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("threads is {}", options.threads),
              fmt::format("1 to {}, or 0 for every processor this process may use", kMostThreads));
}

}  // namespace

struct Dispatcher::Impl {
  /// Plans made under the same options.
  struct Plans {
    DispatcherOptions options;
    Backend* backend;
    MeasuredTable measured{};  ///< of the tuning file, for this device's class
    Plans* next = nullptr;     ///< of a list that only grows, at its front
    CachesOf<RecipeOperations>::type caches{};

    template <class Op>
    Result<const PlanFor<Op>*> plan(const typename Op::Problem& problem, const DispatcherOptions& under) {
      auto& cache = std::get<PlanCache<PlanFor<Op>>>(caches);
      if (const PlanFor<Op>* known = cache.find(problem)) return known;
      const Uncancelled planning;
      TS_TRY(validate(problem));
      TS_ASSIGN(BackendOf<Op>* const kernels, backend->find<Op>());
      TS_ASSIGN(std::unique_ptr<PlanFor<Op>> made, choose_plan<Op>(*kernels, problem, under, measured));
      if (log_level() >= LogLevel::debug) {
        log_debug("planned {} on {}: {}", made->kernel_name(), to_string(made->device()), made->reason());
        // What tune --from-log reads.
        if constexpr (OperationProblem<typename Op::Problem>) log_debug("its problem: {}", to_line(problem));
      }
      return cache.insert(std::move(made));
    }
  };

  Result<std::unique_ptr<Backend>> backend;  ///< or why every plan() fails
  Plans own;                                 ///< under the dispatcher's options
  std::atomic<Plans*> others{nullptr};       ///< under other options
  std::mutex adding{};                       ///< held to change what follows
  std::map<int, std::unique_ptr<Backend>> by_threads{};
  std::vector<std::unique_ptr<Plans>> owned{};
  AtFork at_fork{this, [](void* impl) { static_cast<Impl*>(impl)->begin_anew(); }};

  /// Fills in what the dispatcher's own plans need. Errors: those with which every plan fails.
  Status open() {
    const Uncancelled opening;
    TS_TRY(check_environment());
    TS_TRY(check(own.options));
    TS_ASSIGN(backend, open_backend(own.options.device, own.options.threads));
    own.backend = backend->get();
    return read_tuning(own);
  }

  /// The plans under these options: found without a lock and without allocating where there are some. Errors: why there
  /// is no device; invalid_argument.
  Result<Plans*> under(const DispatcherOptions& options) {
    if (!backend) return std::unexpected(backend.error());
    if (options == own.options) return &own;
    if (Plans* const known = find(options)) return known;
    const Uncancelled planning;
    TS_TRY(check(options));
    if (options.device != own.options.device)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the options are for {}, the dispatcher for {}", to_string(options.device),
                              to_string(own.options.device)),
                  "the dispatcher's device");
    const std::lock_guard lock(adding);
    if (Plans* const known = find(options)) return known;
    auto made = std::make_unique<Plans>(options, backend_for(options.threads));
    TS_TRY(read_tuning(*made));
    made->next = others.load();
    owned.push_back(std::move(made));
    others.store(owned.back().get(), std::memory_order_release);
    return owned.back().get();
  }

  template <class Op>
  Result<const PlanFor<Op>*> plan(const typename Op::Problem& problem, const DispatcherOptions& options) {
    TS_ASSIGN(Plans* const plans, under(options));
    return plans->plan<Op>(problem, plans->options);
  }

  /// With the dispatcher's own options.
  template <class Op>
  Result<const PlanFor<Op>*> plan(const typename Op::Problem& problem) {
    if (!backend) return std::unexpected(backend.error());
    return own.plan<Op>(problem, own.options);
  }

  /// The plan that packs an operand. A kernel asked for by name is the one that computes, not the one that packs.
  template <class Op>
  Result<const PlanFor<Op>*> packing(const typename Op::Problem& problem) {
    if (!backend) return std::unexpected(backend.error());
    DispatcherOptions any_kernel = own.options;
    any_kernel.kernel.clear();
    return own.plan<Op>(problem, any_kernel);
  }

  Result<std::unique_ptr<const GemmListPlan>> plan_list(std::span<const GemmProblem> problems,
                                                        const DispatcherOptions& options) {
    const Uncancelled planning;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const Status status =
          problems[i].grouping == GemmGrouping::none
              ? validate(problems[i])
              : fail(ErrorCode::unsupported, "its batch is groups", "a call of its own, or a product for each group");
      if (!status) return std::unexpected(of_product(status.error(), i, problems.size()));
    }
    TS_ASSIGN(Plans* const plans, under(options));
    TS_ASSIGN(ListBackend<Gemm>* const kernels, plans->backend->find<ListOf<Gemm>>());
    return kernels->plan(
        {problems.begin(), problems.end()}, [&](const GemmProblem& problem) { return plan<Gemm>(problem, options); },
        options);
  }

  template <class Op>
  Status run(const typename Op::Arguments& call, const RunOptions& options) {
    if (!backend) return std::unexpected(backend.error());
    TS_ASSIGN(DirectBackend<Op>* const kernels, own.backend->find<Op>());
    TS_TRY(validate(call, own.options.device.kind));
    return kernels->run(call, options);
  }

  template <class Op>
  Result<ChoiceInfo> candidates(const typename Op::Problem& problem, const DispatcherOptions& options) {
    const Uncancelled looking;
    TS_TRY(validate(problem));
    TS_ASSIGN(Plans* const plans, under(options));
    TS_ASSIGN(BackendOf<Op>* const kernels, plans->backend->find<Op>());
    TS_ASSIGN(Ranking ranking, kernels->rank(problem));
    plans->measured.apply(measured_as(problem), ranking);
    TS_TRY(order_for(options.determinism, ranking.candidates));
    TS_ASSIGN(const std::vector<Refusal> refusals, kernels->refusals(problem));
    ChoiceInfo info{.policy = std::string(ranking.policy)};
    for (const Candidate& candidate : ranking.candidates)
      info.candidates.push_back({recipe_name(candidate.recipe), candidate.predicted_seconds});
    for (const Refusal& refusal : refusals)
      info.refusals.push_back({native_name(refusal.config), std::string(refusal.rule), refusal.figures});
    return info;
  }

 private:
  [[nodiscard]] Plans* find(const DispatcherOptions& options) const {
    for (Plans* plans = others.load(std::memory_order_acquire); plans != nullptr; plans = plans->next)
      if (plans->options == options) return plans;
    return nullptr;
  }

  /// A tuning file that cannot be read fails every plan: a process that silently chose otherwise than its peers would
  /// be found much later.
  static Status read_tuning(Plans& plans) {
    const std::string& named = plans.options.tuning;
    const std::string path = named.empty() ? env("TILESMITH_TUNING").value_or("") : named;
    if (path.empty()) return {};
    TS_ASSIGN(const TuningFile file, TuningFile::read(path));
    const std::string device_class = plans.backend->device_class();
    plans.measured = file.table_for(device_class);
    if (plans.measured.empty())
      log_once(LogLevel::warn, path, fmt::format("{} has no choices for this device ({})", path, device_class));
    return {};
  }

  /// In a forked child, when another thread was adding something. Plans in use stay where they are.
  void begin_anew() {
    if (!renew(adding)) return;
    new (&owned) decltype(owned);
    new (&by_threads) decltype(by_threads);
  }

  /// The device for another number of threads.
  Backend* backend_for(int threads) {
    if (threads == own.options.threads) return own.backend;
    const auto [at, is_new] = by_threads.try_emplace(threads);
    if (is_new) at->second = own.backend->with_threads(threads);
    return at->second == nullptr ? own.backend : at->second.get();
  }
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(new Impl{.backend = fail(ErrorCode::internal, "not opened"),
                     .own = {.options = std::move(options), .backend = nullptr}}) {
  const Status opened = impl_->open();
  if (!opened) impl_->backend = std::unexpected(opened.error());
}

Dispatcher::~Dispatcher() = default;

Device Dispatcher::device() const {
  return impl_->own.options.device;
}

const DispatcherOptions& Dispatcher::options() const {
  return impl_->own.options;
}

Result<const AttentionPlan*> Dispatcher::plan(const AttentionProblem& problem) {
  return impl_->plan<AttentionFwd>(problem);
}

Result<const AttentionBackwardPlan*> Dispatcher::plan(const AttentionBackwardProblem& problem) {
  return impl_->plan<AttentionBwd>(problem);
}

Result<const GemmPlan*> Dispatcher::plan(const GemmProblem& problem) {
  return impl_->plan<Gemm>(problem);
}

Result<const ConvPlan*> Dispatcher::plan(const ConvProblem& problem) {
  return impl_->plan<Conv>(problem);
}

Result<std::unique_ptr<const GemmListPlan>> Dispatcher::plan(std::span<const GemmProblem> problems) {
  return impl_->plan_list(problems, impl_->own.options);
}

Result<const AttentionPlan*> Dispatcher::plan(const AttentionProblem& problem, const DispatcherOptions& options) {
  return impl_->plan<AttentionFwd>(problem, options);
}

Result<const AttentionBackwardPlan*> Dispatcher::plan(const AttentionBackwardProblem& problem,
                                                      const DispatcherOptions& options) {
  return impl_->plan<AttentionBwd>(problem, options);
}

Result<const GemmPlan*> Dispatcher::plan(const GemmProblem& problem, const DispatcherOptions& options) {
  return impl_->plan<Gemm>(problem, options);
}

Result<const ConvPlan*> Dispatcher::plan(const ConvProblem& problem, const DispatcherOptions& options) {
  return impl_->plan<Conv>(problem, options);
}

Result<std::unique_ptr<const GemmListPlan>> Dispatcher::plan(std::span<const GemmProblem> problems,
                                                             const DispatcherOptions& options) {
  return impl_->plan_list(problems, options);
}

Result<ChoiceInfo> Dispatcher::candidates(const AttentionProblem& problem, const DispatcherOptions& options) {
  return impl_->candidates<AttentionFwd>(problem, options);
}

Result<ChoiceInfo> Dispatcher::candidates(const AttentionBackwardProblem& problem, const DispatcherOptions& options) {
  return impl_->candidates<AttentionBwd>(problem, options);
}

Result<ChoiceInfo> Dispatcher::candidates(const GemmProblem& problem, const DispatcherOptions& options) {
  return impl_->candidates<Gemm>(problem, options);
}

Result<ChoiceInfo> Dispatcher::candidates(const ConvProblem& problem, const DispatcherOptions& options) {
  return impl_->candidates<Conv>(problem, options);
}

Result<std::size_t> Dispatcher::packed_b_bytes(const GemmProblem& problem) {
  TS_ASSIGN(const GemmPackBPlan* const plan, impl_->packing<GemmPackB>(pack_b_problem(problem)));
  return plan->packed_bytes();
}

Status Dispatcher::pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed) {
  TS_ASSIGN(const GemmPackBPlan* const plan, impl_->packing<GemmPackB>(pack_b_problem(problem)));
  return plan->run({.b = b, .packed = packed});
}

Result<std::size_t> Dispatcher::packed_w_bytes(const ConvProblem& problem) {
  TS_ASSIGN(const ConvPackWPlan* const plan, impl_->packing<ConvPackW>(pack_w_problem(problem)));
  return plan->packed_bytes();
}

Status Dispatcher::pack_w(const ConvProblem& problem, const void* w, const ConvStrides& strides, void* packed) {
  TS_ASSIGN(const ConvPackWPlan* const plan, impl_->packing<ConvPackW>(pack_w_problem(problem)));
  return plan->run({.w = w, .strides = strides, .packed = packed});
}

Status Dispatcher::merge_states(const MergeStates& call, const RunOptions& options) {
  return impl_->run<MergeStatesCall>(call, options);
}

Status Dispatcher::append_kv(const AppendKv& call, const RunOptions& options) {
  return impl_->run<AppendKvCall>(call, options);
}

}  // namespace tilesmith
