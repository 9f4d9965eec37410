#include "dispatch/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/log.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

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

template <class PlanT>
Result<std::unique_ptr<PlanT>> named_plan(OperationBackend<PlanT>& backend, const typename PlanT::Problem& problem,
                                          const DispatcherOptions& options) {
  const auto config = parse_native_name(options.kernel);
  if (!config) return fail(ErrorCode::invalid_argument, config.error().message, config.error().hint);
  if (!config->algorithm.is_bitwise() && options.determinism == Determinism::bitwise)
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} adds parts in any order, and bitwise determinism is asked for", options.kernel),
                "determinism tolerant");
  TS_TRY(backend.check(*config, problem));
  return backend.plan(problem, *config, "asked for by name", options.build);
}

/// What gives other bits from run to run is asked for: then the best of it goes first where it should be faster.
void order_for(Determinism determinism, std::vector<Candidate>& candidates) {
  const auto is_bitwise = [](const Candidate& candidate) { return candidate.config.algorithm.is_bitwise(); };
  if (determinism == Determinism::bitwise) {
    std::erase_if(candidates, std::not_fn(is_bitwise));
    return;
  }
  const auto other = std::ranges::find_if_not(candidates, is_bitwise);
  if (other != candidates.end() && other->seconds < candidates.front().seconds)
    std::rotate(candidates.begin(), other, other + 1);
}

}  // namespace

template <class PlanT>
Result<std::unique_ptr<PlanT>> choose_plan(OperationBackend<PlanT>& backend, const typename PlanT::Problem& problem,
                                           const DispatcherOptions& options) {
  if (!options.kernel.empty()) return named_plan(backend, problem, options);
  TS_ASSIGN(std::vector<Candidate> candidates, backend.candidates(problem));
  order_for(options.determinism, candidates);
  const KernelConfig& best = candidates.front().config;
  auto plan =
      backend.plan(problem, best, fmt::format("first of {} candidates by the {}", candidates.size(), backend.policy()),
                   options.build);
  if (plan) return plan;

  const Error obstacle = plan.error();
  const auto fallback = [&](const KernelConfig& config, BuildPolicy build, const char* how) {
    auto other =
        backend.plan(problem, config, fmt::format("the best kernel could not be had: {}", obstacle.message), build);
    if (other) log_once(LogLevel::warn, how, fmt::format("{}; going on with {}", obstacle.text(), how));
    return other;
  };

  // A source that this compiler cannot make a kernel of says little about other templates and levels: the best of each
  // is tried.
  if (options.build == BuildPolicy::allowed && concerns_the_source(obstacle.code)) {
    std::vector<Kind> tried{kind_of(best)};
    for (const Candidate& candidate : candidates) {
      if (std::ranges::find(tried, kind_of(candidate.config)) != tried.end()) continue;
      tried.push_back(kind_of(candidate.config));
      if (auto other = fallback(candidate.config, options.build, "kernels of another kind")) return other;
    }
  }

  // What needs no compiler: exact candidates from the store, then linked-in kernels.
  constexpr const char* kNoCompiler = "kernels that need no compiler";
  for (const Candidate& candidate : candidates)
    if (auto other = fallback(candidate.config, BuildPolicy::never, kNoCompiler)) return other;
  for (const Candidate& candidate : backend.fallbacks(problem))
    if (auto other = fallback(candidate.config, BuildPolicy::never, kNoCompiler)) return other;
  return std::unexpected(obstacle);
}

template Result<std::unique_ptr<AttentionPlan>> choose_plan(OperationBackend<AttentionPlan>&, const AttentionProblem&,
                                                            const DispatcherOptions&);
template Result<std::unique_ptr<GemmPlan>> choose_plan(OperationBackend<GemmPlan>&, const GemmProblem&,
                                                       const DispatcherOptions&);

}  // namespace tilesmith
