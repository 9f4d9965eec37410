#include "tilesmith/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/log.hpp"
#include "dispatch/attention_problem.hpp"
#include "dispatch/candidates.hpp"
#include "dispatch/plan.hpp"
#include "dispatch/plan_cache.hpp"
#include "dispatch/registry.hpp"
#include "kernel/native_name.hpp"
#include "runtime/cpu_machine.hpp"
#include "runtime/thread_pool.hpp"

namespace tilesmith {

namespace {

/// A kernel for a problem, and why it is this one.
struct Choice {
  KernelConfig config;
  CpuKernel kernel;
  std::string reason;
};

/// Kernels of one kind are made from one template with one set of compiler flags.
using Kind = std::tuple<ArchName, Pipeline, Instruction>;
Kind kind_of(const KernelConfig& config) {
  return {config.arch, config.algorithm.pipeline, config.algorithm.instruction};
}

/// Whether a failure may lie in the one source, and not in the machine, the store, or the way to the compiler.
bool concerns_the_source(ErrorCode code) {
  return code == ErrorCode::compile_failed || code == ErrorCode::internal || code == ErrorCode::unsupported ||
         code == ErrorCode::load_failed;
}

}  // namespace

struct Dispatcher::Impl {
  DispatcherOptions options;
  const Result<CpuMachine>& machine;
  std::unique_ptr<ThreadPool> pool{};
  std::unique_ptr<Registry> registry{};
  CostModelPolicy policy{};
  PlanCache plans{};

  [[nodiscard]] Result<std::unique_ptr<Plan>> make_plan(const AttentionProblem& problem);
  [[nodiscard]] Result<Choice> choose(const AttentionProblem& problem);
  [[nodiscard]] Result<std::vector<Candidate>> ranked_candidates(const AttentionProblem& problem);
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(new Impl{.options = std::move(options), .machine = this_cpu_machine()}) {
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
    auto parsed = parse_native_name(options.kernel);
    if (!parsed) return fail(ErrorCode::invalid_argument, parsed.error().message, parsed.error().hint);
    const KernelConfig config = std::move(*parsed);
    if (machine->level(config.arch) == nullptr)
      return fail(
          ErrorCode::unsupported,
          fmt::format("kernel {} is for {}, which this machine does not run", options.kernel, config.arch.text()),
          "tilesmith arch lists what runs here");
    if (!serves(config, problem))
      return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", options.kernel),
                  fmt::format("the problem's kernels are {}",
                              native_name({config.arch, signature_of(problem), config.algorithm})));
    return std::vector<Candidate>{{config, 0}};
  }
  TS_ASSIGN(std::vector<Candidate> candidates, candidates_for(problem, *machine));
  policy.rank(problem, *machine, pool->threads(), candidates);
  return candidates;
}

Result<Choice> Dispatcher::Impl::choose(const AttentionProblem& problem) {
  TS_ASSIGN(const std::vector<Candidate> candidates, ranked_candidates(problem));
  const KernelConfig& best = candidates.front().config;
  const Result<CpuKernel> found = registry->find(best, options.build);
  if (found)
    return Choice{best, *found,
                  options.kernel.empty()
                      ? fmt::format("first of {} candidates by the {}", candidates.size(), policy.name())
                      : "asked for by name"};
  const Error& obstacle = found.error();
  if (!options.kernel.empty()) return std::unexpected(obstacle);
  const auto stand_in = [&](const KernelConfig& config, const CpuKernel& kernel, const char* how) {
    log_once(LogLevel::warn, how, fmt::format("{}; going on with {}", obstacle.text(), how));
    return Choice{config, kernel, fmt::format("the best kernel could not be had: {}", obstacle.message)};
  };

  // A source that this compiler cannot make a kernel of says little about other templates and levels: the best of each
  // is tried.
  if (options.build == BuildPolicy::allowed && concerns_the_source(obstacle.code)) {
    std::vector<Kind> tried{kind_of(best)};
    for (const Candidate& candidate : candidates) {
      if (std::ranges::find(tried, kind_of(candidate.config)) != tried.end()) continue;
      tried.push_back(kind_of(candidate.config));
      if (const auto other = registry->find(candidate.config, options.build))
        return stand_in(candidate.config, *other, "kernels of another kind");
    }
  }

  // What needs no compiler: exact candidates from the store, then linked-in kernels, those with the fewest unused
  // traits first.
  std::vector<Candidate> essential;
  for (const KernelConfig& config : registry->essential())
    if (serves(config, problem)) essential.push_back({config, 0});
  policy.rank(problem, *machine, pool->threads(), essential);
  std::ranges::stable_sort(essential, {}, [&](const Candidate& c) { return unused_traits(c.config, problem); });
  for (const auto* list : std::array{&candidates, static_cast<const std::vector<Candidate>*>(&essential)})
    for (const Candidate& candidate : *list)
      if (const auto other = registry->find(candidate.config, BuildPolicy::never))
        return stand_in(candidate.config, *other, "kernels that need no compiler");
  return std::unexpected(obstacle);
}

Result<std::unique_ptr<Plan>> Dispatcher::Impl::make_plan(const AttentionProblem& problem) {
  TS_ASSIGN(Choice choice, choose(problem));
  auto plan = std::make_unique<Plan::Impl>(problem, choice.kernel);
  plan->pool = pool.get();
  plan->splits = splits_for(problem, choice.config, pool->threads());
  plan->kernel_name = native_name(choice.config);
  plan->reason = std::move(choice.reason);

  const TsAttentionArgs args =
      cpu_arguments(problem, dense_arguments(problem, AttentionLayout::bhsd), plan->splits, nullptr);
  const TsCpuKernel& table = plan->kernel.table();
  plan->workspace_bytes = static_cast<std::size_t>(table.workspace_bytes(&args));
  pool->reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  for (unsigned stage = 0; stage < table.stage_count; ++stage)
    plan->stages.push_back({plan->kernel_name, fmt::format("stage {}", stage)});
  log_debug("planned {}: {}", plan->kernel_name, plan->reason);
  return std::make_unique<Plan>(std::move(plan));
}

}  // namespace tilesmith
