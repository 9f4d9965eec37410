#include "dispatch/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/log.hpp"

namespace tilesmith {
namespace {

/// Kernels of one kind are made from one template with one set of compiler flags.
using Kind = std::vector<std::tuple<ArchName, Pipeline, Instruction>>;
Kind kind_of(const Recipe& recipe) {
  Kind kind;
  for (const Step& step : recipe.steps)
    kind.emplace_back(step.config.arch, step.config.algorithm.pipeline, step.config.algorithm.instruction);
  return kind;
}

/// Whether a failure may lie in the one source, and not in the machine, the store, or the way to the compiler.
bool concerns_the_source(ErrorCode code) {
  return code == ErrorCode::compile_failed || code == ErrorCode::internal || code == ErrorCode::unsupported ||
         code == ErrorCode::load_failed;
}

template <class PlanT>
Result<std::unique_ptr<PlanT>> named_plan(OperationBackend<PlanT>& backend, const typename PlanT::Problem& problem,
                                          const DispatcherOptions& options) {
  auto recipe = parse_recipe_name(options.kernel);
  if (!recipe) return fail(ErrorCode::invalid_argument, recipe.error().message, recipe.error().hint);
  if (!recipe->is_bitwise() && options.determinism == Determinism::bitwise)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("kernel {} adds partials in any order, and bitwise determinism is asked for", options.kernel),
        "determinism tolerant");
  TS_TRY(backend.check(*recipe, problem));
  return backend.plan(problem, {std::move(*recipe)}, "asked for by name", options.build);
}

/// Leaves what the determinism allows, which is never nothing. Where tolerant determinism is asked for, the best recipe
/// that gives other bits from run to run goes first if it should be faster. Error: unsupported.
Status order_for(Determinism determinism, std::vector<Candidate>& candidates) {
  const auto is_bitwise = [](const Candidate& candidate) { return candidate.recipe.is_bitwise(); };
  if (determinism == Determinism::bitwise) {
    const std::size_t all = candidates.size();
    std::erase_if(candidates, std::not_fn(is_bitwise));
    if (candidates.empty())
      return fail(ErrorCode::unsupported,
                  fmt::format("{} kernels compute this problem, and all of them add partials in any order, while "
                              "bitwise determinism is asked for",
                              all),
                  "determinism tolerant");
    return {};
  }
  const auto other = std::ranges::find_if_not(candidates, is_bitwise);
  if (other != candidates.end() && other->predicted_seconds < candidates.front().predicted_seconds)
    std::rotate(candidates.begin(), other, other + 1);
  return {};
}

}  // namespace

template <class PlanT>
Result<std::unique_ptr<PlanT>> choose_plan(OperationBackend<PlanT>& backend, const typename PlanT::Problem& problem,
                                           const DispatcherOptions& options) {
  if (!options.kernel.empty()) return named_plan(backend, problem, options);
  TS_ASSIGN(Ranking ranking, backend.rank(problem));
  std::vector<Candidate>& candidates = ranking.candidates;
  TS_TRY(order_for(options.determinism, candidates));
  const Candidate& best = candidates.front();
  auto plan = backend.plan(
      problem, best, fmt::format("first of {} candidates by the {}", candidates.size(), ranking.policy), options.build);
  if (plan) return plan;

  const Error obstacle = plan.error();
  const auto fallback = [&](const Candidate& candidate, BuildPolicy build, const char* how) {
    auto other =
        backend.plan(problem, candidate, fmt::format("the best kernel could not be had: {}", obstacle.message), build);
    if (other) log_once(LogLevel::warn, how, fmt::format("{}; going on with {}", obstacle.text(), how));
    return other;
  };

  // A source that this compiler cannot make a kernel of says little about other templates and levels: the best of each
  // is tried.
  if (options.build == BuildPolicy::allowed && concerns_the_source(obstacle.code)) {
    std::vector<Kind> tried{kind_of(best.recipe)};
    for (const Candidate& candidate : candidates) {
      if (std::ranges::find(tried, kind_of(candidate.recipe)) != tried.end()) continue;
      tried.push_back(kind_of(candidate.recipe));
      if (auto other = fallback(candidate, options.build, "kernels of another kind")) return other;
    }
  }

  // What needs no compiler: exact candidates from the store, then linked-in kernels.
  constexpr const char* kNoCompiler = "kernels that need no compiler";
  for (const Candidate& candidate : candidates)
    if (auto other = fallback(candidate, BuildPolicy::never, kNoCompiler)) return other;
  for (const Candidate& candidate : backend.fallbacks(problem))
    if (auto other = fallback(candidate, BuildPolicy::never, kNoCompiler)) return other;
  return std::unexpected(obstacle);
}

template Result<std::unique_ptr<AttentionPlan>> choose_plan(OperationBackend<AttentionPlan>&, const AttentionProblem&,
                                                            const DispatcherOptions&);
template Result<std::unique_ptr<GemmPlan>> choose_plan(OperationBackend<GemmPlan>&, const GemmProblem&,
                                                       const DispatcherOptions&);

}  // namespace tilesmith
