#include "tilesmith/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "dispatch/attention_problem.hpp"
#include "dispatch/candidates.hpp"
#include "dispatch/plan_cache.hpp"
#include "dispatch/registry.hpp"
#include "kernel/native_name.hpp"
#include "runtime/cpu_machine.hpp"
#include "runtime/thread_pool.hpp"

namespace tilesmith {

struct Plan::Impl {
  Impl(const AttentionProblem& of, const CpuKernel& by) : problem(of), kernel(by) {}

  AttentionProblem problem;
  CpuKernel kernel;
  ThreadPool* pool = nullptr;
  std::int64_t splits = 1;
  std::size_t workspace_bytes = 0;
  std::string kernel_name;
  std::string reason;
  std::vector<PlanStage> stages;
};

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;

const AttentionProblem& Plan::problem() const { return impl_->problem; }
std::string_view Plan::kernel_name() const { return impl_->kernel_name; }
std::span<const PlanStage> Plan::stages() const { return impl_->stages; }
std::string_view Plan::reason() const { return impl_->reason; }
std::size_t Plan::workspace_bytes() const { return impl_->workspace_bytes; }

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

struct Dispatcher::Impl {
  DispatcherOptions options;
  const Result<CpuMachine>& machine;
  std::unique_ptr<ThreadPool> pool{};
  std::unique_ptr<Registry> registry{};
  CostModelPolicy policy{};
  PlanCache plans{};

  [[nodiscard]] Result<std::unique_ptr<Plan>> make_plan(const AttentionProblem& problem);
  [[nodiscard]] Result<std::vector<Candidate>> ranked_candidates(const AttentionProblem& problem);
};

Dispatcher::Dispatcher(DispatcherOptions options) : impl_(new Impl{.options = std::move(options), .machine = this_cpu_machine()}) {
  if (!impl_->machine) return;  // every plan() answers with what detection found
  const int threads = impl_->options.threads > 0 ? impl_->options.threads : impl_->machine->threads;
  impl_->pool = std::make_unique<ThreadPool>(threads);
  impl_->registry = std::make_unique<Registry>(*impl_->machine);
}

Dispatcher::~Dispatcher() = default;

Result<const Plan*> Dispatcher::plan(const AttentionProblem& problem) {
  if (const Plan* known = impl_->plans.find(problem)) return known;
  TS_TRY(validate(problem));
  if (!impl_->machine) return std::unexpected(impl_->machine.error());
  TS_ASSIGN(std::unique_ptr<Plan> made, impl_->make_plan(problem));
  return impl_->plans.insert(std::move(made));
}

Result<std::vector<Candidate>> Dispatcher::Impl::ranked_candidates(const AttentionProblem& problem) {
  if (!options.kernel.empty()) {
    TS_ASSIGN(const KernelConfig config, parse_native_name(options.kernel));
    if (machine->level(config.arch) == nullptr)
      return fail(ErrorCode::unsupported, fmt::format("kernel {} is for {}, which this machine does not run", options.kernel, config.arch.text()),
                  "tilesmith arch lists what runs here");
    if (!serves(config, problem))
      return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", options.kernel),
                  fmt::format("the problem's kernels are {}", native_name({config.arch, signature_of(problem), config.algorithm})));
    return std::vector<Candidate>{{config, 0}};
  }
  TS_ASSIGN(std::vector<Candidate> candidates, candidates_for(problem, *machine));
  policy.rank(problem, *machine, pool->threads(), candidates);
  return candidates;
}

Result<std::unique_ptr<Plan>> Dispatcher::Impl::make_plan(const AttentionProblem& problem) {
  TS_ASSIGN(const std::vector<Candidate> candidates, ranked_candidates(problem));

  // The best candidate that can be had. When the compiler is missing or fails, a kernel of the essential set serves.
  const KernelConfig* chosen = nullptr;
  std::string reason;
  Result<CpuKernel> kernel = registry->find(candidates.front().config, options.build);
  std::vector<Candidate> essential;
  if (kernel) {
    chosen = &candidates.front().config;
    reason = options.kernel.empty() ? fmt::format("first of {} candidates by the {}", candidates.size(), policy.name()) : "asked for by name";
  } else if (options.kernel.empty()) {
    for (const KernelConfig& config : registry->essential())
      if (serves(config, problem)) essential.push_back({config, 0});
    policy.rank(problem, *machine, pool->threads(), essential);
    std::ranges::stable_sort(essential, {}, [&](const Candidate& c) { return unused_traits(c.config, problem); });
    // Exact candidates that are already there come before general ones with unused traits.
    for (const auto* list : std::array{&candidates, static_cast<const std::vector<Candidate>*>(&essential)})
      for (const Candidate& candidate : *list) {
        if (chosen != nullptr) break;
        if (auto found = registry->find(candidate.config, BuildPolicy::never)) {
          log_once(LogLevel::warn, "essential", fmt::format("{}; going on with kernels that need no compiler", kernel.error().text()));
          reason = fmt::format("the best kernel could not be had: {}", kernel.error().message);
          kernel = std::move(found);
          chosen = &candidate.config;
        }
      }
  }
  if (chosen == nullptr) return std::unexpected(kernel.error());

  auto plan = std::make_unique<Plan::Impl>(problem, *kernel);
  plan->pool = pool.get();
  plan->splits = splits_for(problem, *chosen, pool->threads());
  plan->kernel_name = native_name(*chosen);
  plan->reason = std::move(reason);

  const TsAttentionArgs args = cpu_arguments(problem, dense_arguments(problem, AttentionLayout::bhsd), plan->splits, nullptr);
  const TsCpuKernel& table = plan->kernel.table();
  plan->workspace_bytes = static_cast<std::size_t>(table.workspace_bytes(&args));
  pool->reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  for (unsigned stage = 0; stage < table.stage_count; ++stage) plan->stages.push_back({plan->kernel_name, fmt::format("stage {}", stage)});
  log_debug("planned {}: {}", plan->kernel_name, plan->reason);
  return std::make_unique<Plan>(std::move(plan));
}

}  // namespace tilesmith
