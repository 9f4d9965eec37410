#include "sweep/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/json.hpp"
#include "instances/attention/ck.hpp"
#include "measure/measure.hpp"
#include "problem/line.hpp"
#include "sweep/build_list.hpp"

namespace tilesmith {
namespace {

// One compile: of own kernels 0.06 to 0.3 s (gfx90a to gfx1201, clang 22, one core of a Zen 4); of Composable Kernel's
// 16 to 31 s with hipcc (its dispatcher's notes on kernel selection, "First JIT").
constexpr double kOwnCompileSeconds = 0.3, kCkCompileSeconds = 25;
// A worker's start, its device's and the upload of tensors: assumed.
constexpr double kWorkerSeconds = 1;

double compile_seconds(const KernelConfig& config) {
  return config.origin == Origin::ck ? kCkCompileSeconds : kOwnCompileSeconds;
}

/// Of measuring one candidate, at most: until enough samples are there and the budget is spent.
double measuring_seconds(double call_seconds) {
  const MeasureOptions usual;
  return kWorkerSeconds + std::max(usual.budget.count(), usual.min_samples * call_seconds);
}

bool is_of_variant(const Candidate& candidate, std::optional<AttentionVariant> variant) {
  const KernelConfig& config = candidate.recipe.main();
  if (!variant || config.origin != Origin::ck || config.operation() != Operation::attention) return true;
  return variant_of(config.attention().family) == *variant;
}

/// A part while problems are added to it.
struct Counting {
  SweepPlan::Part part;
  BuildList kernels;

  void add(const std::vector<Candidate>& candidates, double run_s) {
    ++part.problems;
    part.candidates += candidates.size();
    part.run_s += run_s;
    for (const Candidate& candidate : candidates) kernels.add(candidate.recipe);
  }

  [[nodiscard]] SweepPlan::Part finished(int workers) {
    part.kernels = kernels.configs().size();
    for (const KernelConfig& config : kernels.configs()) part.build_s += compile_seconds(config);
    part.build_s /= workers;
    return part;
  }
};

nlohmann::json part_json(const SweepPlan::Part& part) {
  return {{"problems", part.problems},
          {"candidates", part.candidates},
          {"kernels", part.kernels},
          {"build_s", part.build_s},
          {"run_s", part.run_s}};
}

/// "1 h 5 min": two units.
std::string duration(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace

namespace {

/// The candidates of a problem that the plan counts.
Result<std::vector<Candidate>> candidates_of(const AnyProblem& problem, const SweepPlanOptions& options) {
  TS_ASSIGN(CandidateList list, list_candidates(options.facts, problem));
  std::vector<Candidate>& candidates = list.ranking.candidates;
  std::erase_if(candidates, [&](const Candidate& candidate) { return !is_of_variant(candidate, options.variant); });
  if (candidates.empty())
    return fail(ErrorCode::unsupported, fmt::format("no instance of variant {}", name_of(*options.variant)));
  if (options.max_kernels > 0 && candidates.size() > static_cast<std::size_t>(options.max_kernels))
    candidates.erase(candidates.begin() + options.max_kernels, candidates.end());
  return std::move(candidates);
}

}  // namespace

Result<SweepPlan> plan_sweep(const SweepPlanOptions& options) {
  SweepPlan plan;
  Counting whole;
  for (const BenchProblems& problems : options.shards) {
    Counting shard;
    std::visit(
        [&]<class Problem>(const std::vector<Problem>& list) {
          using Op = OperationOf<Problem>::type;
          for (const Problem& problem : list) {
            const auto candidates = [&]() -> Result<std::vector<Candidate>> {
              TS_TRY(validate(problem));
              return candidates_of(BenchOperation<Op>::measured(problem), options);
            }();
            if (!candidates) {
              ++plan.skipped[candidates.error().message];
              continue;
            }
            double run_s = 0;
            for (const Candidate& candidate : *candidates) run_s += measuring_seconds(candidate.predicted_seconds);
            whole.add(*candidates, run_s);
            shard.add(*candidates, run_s);
            plan.problems.push_back({.line = to_line(problem),
                                     .candidates = candidates->size(),
                                     .run_s = run_s,
                                     .shard = static_cast<int>(plan.shards.size()) + 1});
          }
        },
        problems);
    plan.shards.push_back(shard.finished(options.workers));
  }
  plan.whole = whole.finished(options.workers);
  plan.kernels.assign(whole.kernels.configs().begin(), whole.kernels.configs().end());
  return plan;
}

nlohmann::json to_json(const SweepPlan& plan) {
  nlohmann::json out = part_json(plan.whole);
  out["shards"] = nlohmann::json::array();
  for (const SweepPlan::Part& part : plan.shards) out["shards"].push_back(part_json(part));
  out["rows"] = nlohmann::json::array();
  for (const SweepPlan::Problem& problem : plan.problems)
    out["rows"].push_back({{"line", problem.line},
                           {"candidates", problem.candidates},
                           {"run_s", problem.run_s},
                           {"shard", problem.shard}});
  out["skipped"] = nlohmann::json::object();
  for (const auto& [reason, count] : plan.skipped) out["skipped"][reason] = count;
  return out;
}

std::string to_text(const SweepPlan& plan) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:>8} {:>9} {:>10} {:>8}  {:14} {}\n", "shard", "problems", "candidates", "kernels", "building",
                 "measuring, at most");
  const auto line = [&](const std::string& name, const SweepPlan::Part& part) {
    fmt::format_to(out, "{:>8} {:9} {:10} {:8}  {:14} {}\n", name, part.problems, part.candidates, part.kernels,
                   duration(part.build_s), duration(part.run_s));
  };
  if (plan.shards.size() > 1)
    for (std::size_t i = 0; i < plan.shards.size(); ++i)
      line(fmt::format("{}/{}", i + 1, plan.shards.size()), plan.shards[i]);
  line("all", plan.whole);
  for (const auto& [reason, count] : plan.skipped) fmt::format_to(out, "{} problems skipped: {}\n", count, reason);
  return text;
}

}  // namespace tilesmith
