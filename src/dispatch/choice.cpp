#include "dispatch/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <tuple>

#include "base/log.hpp"
#include "choose/determinism.hpp"
#include "jit/counters.hpp"
#include "jit/resource_report.hpp"

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

Status named_plan(RecipeSource& source, const DispatcherOptions& options) {
  auto recipe = parse_recipe_name(options.kernel);
  if (!recipe) return fail(ErrorCode::invalid_argument, recipe.error().message, recipe.error().hint);
  if (!recipe->is_bitwise() && options.determinism == Determinism::bitwise)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("kernel {} adds partials in any order, and bitwise determinism is asked for", options.kernel),
        "determinism tolerant");
  TS_TRY(source.check(*recipe));
  Candidate named{std::move(*recipe)};
  named.source = ChoiceSource::name;
  return source.plan(named, "asked for by name", options.build);
}

}  // namespace

Status choose(RecipeSource& source, const DispatcherOptions& options) {
  if (!options.kernel.empty()) return named_plan(source, options);
  TS_ASSIGN(Ranking ranking, source.rank());
  std::vector<Candidate>& candidates = ranking.candidates;
  if (candidates.empty()) return fail(ErrorCode::unsupported, "no kernel computes this problem");
  TS_TRY(order_for(options.determinism, candidates));
  const Candidate& best = candidates.front();
  const Status plan = source.plan(
      best, fmt::format("first of {} candidates by the {}", candidates.size(), ranking.policy), options.build);
  if (plan) return {};

  const Error obstacle = plan.error();
  if (obstacle.code == ErrorCode::cancelled) return plan;  // the caller wants an end, and no other kernel
  const auto fallback = [&](Candidate candidate, BuildPolicy build, const char* how) {
    candidate.source = ChoiceSource::fallback;
    candidate.measured_seconds.reset();
    candidate.bound = 0;
    const Status other =
        source.plan(candidate, fmt::format("the best kernel could not be had: {}", obstacle.message), build);
    if (other) build_counters().fallbacks.fetch_add(1, std::memory_order_relaxed);
    if (other) log_once(LogLevel::warn, how, fmt::format("{}; going on with {}", obstacle.text(), how));
    return other;
  };

  // A source that this compiler cannot make a kernel of says little about other templates and levels: the best of each
  // is tried. It says more of other sizes of the same, but one that lacks registers may have them in the next.
  if (options.build == BuildPolicy::allowed && concerns_the_source(obstacle.code)) {
    std::vector<Kind> tried{kind_of(best.recipe)};
    std::vector<const Candidate*> alike;
    for (const Candidate& candidate : candidates | std::views::drop(1)) {
      if (std::ranges::find(tried, kind_of(candidate.recipe)) != tried.end()) {
        alike.push_back(&candidate);
        continue;
      }
      tried.push_back(kind_of(candidate.recipe));
      if (fallback(candidate, options.build, "kernels of another kind")) return {};
    }
    constexpr std::size_t kMostBuilds = 4;  // each may take a compiler some seconds
    if (is_loss_of_performance(obstacle))
      for (const Candidate* candidate : alike | std::views::take(kMostBuilds))
        if (fallback(*candidate, options.build, "other kernels of its kind")) return {};
  }

  // What needs no compiler: exact candidates from the store, then linked-in kernels.
  constexpr const char* kNoCompiler = "kernels that need no compiler";
  for (const Candidate& candidate : candidates)
    if (fallback(candidate, BuildPolicy::never, kNoCompiler)) return {};
  for (const Candidate& candidate : source.fallbacks())
    if (fallback(candidate, BuildPolicy::never, kNoCompiler)) return {};
  return std::unexpected(obstacle);
}

}  // namespace tilesmith
