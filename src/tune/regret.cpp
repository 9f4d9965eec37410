#include "tune/regret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "problem/line.hpp"
#include "tune/interleaving.hpp"

namespace tilesmith {
namespace {

/// A candidate that did not fail.
struct Timed {
  const OracleRow* row = nullptr;
  std::array<double, 2> halves{};  ///< seconds; of those far behind the look, twice
};

/// A problem with what was measured of it.
struct JudgedProblem {
  std::string line, family;
  std::string kind;           ///< all but the sizes: problems of one kind have kernels in common
  std::vector<double> sizes;  ///< log2
  std::vector<Timed> candidates;

  /// The candidate, of those that are wanted, with the least time in the half.
  template <class Wanted>
  [[nodiscard]] std::optional<std::size_t> best(std::size_t half, Wanted wanted) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (wanted(*candidates[i].row) && (!best || candidates[i].halves[half] < candidates[*best].halves[half]))
        best = i;
    return best;
  }
  /// The candidate for which `figure` of its row is least.
  template <class Figure>
  [[nodiscard]] std::size_t least(Figure figure) const {
    return static_cast<std::size_t>(
        std::ranges::min_element(candidates, {}, [&](const Timed& timed) { return figure(*timed.row); }) -
        candidates.begin());
  }
};

constexpr std::array<std::string_view, 9> kSizes = {"m",       "n",        "k",        "k2",      "batch",
                                                    "heads_q", "heads_kv", "seqlen_q", "seqlen_k"};

void describe(const std::string& line, JudgedProblem& judged) {
  judged.line = line;
  const auto call = parse_line(line);
  if (!call) {
    judged.kind = line;  // a problem of another version: it has no neighbours
    return;
  }
  std::visit(
      [&](const auto& each) {
        auto problem = each.problem;
        problem.fields(problem, [&]<class T>(std::string_view name, T& field) {
          if constexpr (std::is_same_v<T, std::int64_t>) {
            if (std::ranges::find(kSizes, name) == kSizes.end()) return;
            judged.sizes.push_back(std::log2(static_cast<double>(field) + 1));
            field = 1;
          }
        });
        judged.kind = identity_of(problem);
      },
      *call);
}

std::vector<JudgedProblem> judged_problems(std::span<const OracleRow> rows) {
  std::map<std::string, JudgedProblem> problems;
  for (const OracleRow& row : rows) {
    JudgedProblem& judged = problems[row.problem];
    judged.family = row.family;
    if (row.status == OracleStatus::failed) continue;
    judged.candidates.push_back(
        {&row, row.turns_s.size() > 1 ? halves_of(row.turns_s) : std::array<double, 2>{row.look_s, row.look_s}});
  }
  std::vector<JudgedProblem> out;
  for (auto& [line, judged] : problems) {
    if (std::ranges::none_of(judged.candidates, [](const Timed& t) { return t.row->turns_s.size() > 1; })) continue;
    describe(line, judged);
    std::ranges::sort(judged.candidates, {}, [](const Timed& t) { return t.row->rank; });
    out.push_back(std::move(judged));
  }
  return out;
}

/// By the times of the three nearest others; nothing where no other has its kernels.
std::optional<std::size_t> nearest(const std::vector<JudgedProblem>& problems, const JudgedProblem& judged) {
  constexpr std::size_t kNeighbours = 3;
  std::vector<std::pair<double, const JudgedProblem*>> near;
  for (const JudgedProblem& other : problems) {
    if (&other == &judged || other.kind != judged.kind || other.sizes.size() != judged.sizes.size()) continue;
    double distance = 0;
    for (std::size_t i = 0; i < judged.sizes.size(); ++i) distance += std::abs(judged.sizes[i] - other.sizes[i]);
    near.emplace_back(distance, &other);
  }
  std::ranges::stable_sort(near, {}, [](const auto& each) { return each.first; });
  if (near.size() > kNeighbours) near.resize(kNeighbours);
  std::map<Key128, std::pair<double, int>> logs;  // of a recipe's time over the best's, and at how many
  for (const auto& [distance, other] : near) {
    const auto seconds = [](const Timed& timed) { return std::sqrt(timed.halves[0] * timed.halves[1]); };
    double best = std::numeric_limits<double>::infinity();
    for (const Timed& timed : other->candidates) best = std::min(best, seconds(timed));
    for (const Timed& timed : other->candidates) {
      auto& [sum, count] = logs[timed.row->recipe];
      sum += std::log(seconds(timed) / best);
      ++count;
    }
  }
  std::optional<std::size_t> found;
  double least = 0;
  int most = 0;
  for (std::size_t i = 0; i < judged.candidates.size(); ++i) {
    const auto log = logs.find(judged.candidates[i].row->recipe);
    if (log == logs.end()) continue;
    const auto& [sum, count] = log->second;
    // One that more neighbours know goes before one that fewer know.
    if (found && (count < most || (count == most && sum / count >= least))) continue;
    found = i;
    least = sum / count;
    most = count;
  }
  return found;
}

struct Policy {
  std::string_view name;
  /// The candidate chosen for the problem when `half` may be looked at.
  std::function<std::optional<std::size_t>(const JudgedProblem&, std::size_t half)> choose;
};

std::vector<Policy> policies_for(const std::vector<JudgedProblem>& problems) {
  const auto first = [](std::size_t count) {
    return [count](const JudgedProblem& judged, std::size_t half) {
      return judged.best(half, [&](const OracleRow& row) { return row.rank < count; });
    };
  };
  return {{"dispatch", [](const JudgedProblem& judged,
                          std::size_t) { return judged.least([](const OracleRow& row) { return row.rank; }); }},
          {"model", [](const JudgedProblem& judged,
                       std::size_t) { return judged.least([](const OracleRow& row) { return row.predicted_s; }); }},
          {"first 2", first(2)},
          {"first 4", first(4)},
          {"first 8", first(8)},
          {"inductor",
           [](const JudgedProblem& judged, std::size_t half) {
             return judged.best(half, [](const OracleRow& row) { return row.sets == "inductor"; });
           }},
          {"nearest", [&problems](const JudgedProblem& judged, std::size_t) { return nearest(problems, judged); }},
          {"noise", {}}};
}

/// The geometric mean over both parts of the halves; nothing where the policy chooses nothing.
std::optional<double> regret_on(const JudgedProblem& judged, const Policy& policy) {
  const auto all = [](const OracleRow&) { return true; };
  double log = 0;
  for (const std::size_t half : {0u, 1u}) {
    const std::size_t other = 1 - half;
    const Timed& best = judged.candidates[*judged.best(half, all)];
    double chosen = best.halves[other], reference = chosen;
    if (policy.choose) {
      const auto choice = policy.choose(judged, half);
      if (!choice) return std::nullopt;
      chosen = judged.candidates[*choice].halves[other];
    } else {
      reference = judged.candidates[*judged.best(other, all)].halves[other];
    }
    log += std::log(chosen / reference) / 2;
  }
  return std::exp(log);
}

RegretFigure figure_of(std::string family, std::string_view policy,
                       std::vector<std::pair<double, const JudgedProblem*>> regrets) {
  RegretFigure figure{
      .family = std::move(family), .policy = std::string(policy), .problems = regrets.size(), .worst_problem = {}};
  if (regrets.empty()) return figure;
  double logs = 0;
  for (const auto& [regret, judged] : regrets) logs += std::log(regret);
  std::ranges::stable_sort(regrets, {}, [](const auto& each) { return each.first; });
  const std::size_t count = regrets.size();
  figure.mean = std::exp(logs / static_cast<double>(count));
  figure.p90 = regrets[(count * 9 + 9) / 10 - 1].first;
  figure.worst = regrets.back().first;
  figure.worst_problem = regrets.back().second->line;
  return figure;
}

}  // namespace

std::vector<RegretFigure> regret_of(std::span<const OracleRow> rows) {
  const std::vector<JudgedProblem> problems = judged_problems(rows);
  std::map<std::string, std::vector<const JudgedProblem*>> families;
  for (const JudgedProblem& judged : problems) families[judged.family].push_back(&judged);
  const std::vector<Policy> policies = policies_for(problems);

  std::vector<RegretFigure> figures;
  const auto add = [&](const std::string& family, const std::vector<const JudgedProblem*>& of_family) {
    for (const Policy& policy : policies) {
      std::vector<std::pair<double, const JudgedProblem*>> regrets;
      for (const JudgedProblem* judged : of_family)
        if (const auto regret = regret_on(*judged, policy)) regrets.emplace_back(*regret, judged);
      figures.push_back(figure_of(family, policy.name, std::move(regrets)));
    }
  };
  std::vector<const JudgedProblem*> all;
  for (const auto& [family, of_family] : families) {
    add(family, of_family);
    all.insert(all.end(), of_family.begin(), of_family.end());
  }
  if (!all.empty()) add("all", all);
  return figures;
}

std::string regret_text(std::span<const RegretFigure> figures) {
  std::string out = fmt::format("{:<12} {:<10} {:>8} {:>7} {:>7} {:>7}  {}\n", "family", "policy", "problems", "mean",
                                "p90", "worst", "worst problem");
  for (const RegretFigure& f : figures) {
    if (f.problems == 0) continue;
    out += fmt::format("{:<12} {:<10} {:>8} {:>7.3f} {:>7.3f} {:>7.3f}  {}\n", f.family, f.policy, f.problems, f.mean,
                       f.p90, f.worst, f.worst_problem);
  }
  return out;
}

}  // namespace tilesmith
