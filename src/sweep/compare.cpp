#include "sweep/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace tilesmith {
namespace {

using Key = std::tuple<std::string, int, std::string>;  // line, threads, kernel (empty: whichever is fastest)

/// The fastest good row of each key; of keys without one, any row.
std::map<Key, const ResultRow*> best_rows(const ResultFile& file, bool by_kernel) {
  std::map<Key, const ResultRow*> best;
  for (const ResultRow& row : file.rows) {
    const ResultRow*& kept = best[{row.line, row.threads, by_kernel ? row.kernel : std::string()}];
    if (kept == nullptr || (row.is_timed() && (!kept->is_timed() || row.median_s < kept->median_s))) kept = &row;
  }
  return best;
}

/// As a share of the median.
double standard_error(const ResultRow& row) {
  constexpr double kOfQuartiles = 1.2533 / 1.349;
  return kOfQuartiles * row.spread / std::sqrt(std::max(1, row.samples));
}

ComparedProblem compared(const ResultRow& a, const ResultRow& b, double least) {
  ComparedProblem out{
      .problem = b.problem, .line = b.line, .threads = b.threads, .kernel_a = a.kernel, .kernel_b = b.kernel};
  if (a.is_timed()) out.a_s = a.median_s;
  if (b.is_timed()) out.b_s = b.median_s;
  if (!a.is_timed() || !b.is_timed()) {
    if (a.is_timed()) out.verdict = CompareVerdict::lost;
    if (b.is_timed()) out.verdict = CompareVerdict::gained;
    return out;
  }
  out.ratio = b.median_s / a.median_s;
  out.noise = std::max(least, 3 * std::hypot(standard_error(a), standard_error(b)));
  if (out.ratio > 1 + out.noise) out.verdict = CompareVerdict::slower;
  if (out.ratio * (1 + out.noise) < 1) out.verdict = CompareVerdict::faster;
  return out;
}

}  // namespace

std::size_t Comparison::count(CompareVerdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count(problems, verdict, &ComparedProblem::verdict));
}

Comparison compare_results(const ResultFile& a, const ResultFile& b, bool by_kernel, double least) {
  const auto of_a = best_rows(a, by_kernel), of_b = best_rows(b, by_kernel);
  Comparison out;
  double logs = 0;
  std::size_t timed = 0;
  for (const auto& [key, row] : of_a) {
    const auto other = of_b.find(key);
    if (other == of_b.end()) {
      ++out.only_a;
      continue;
    }
    ComparedProblem problem = compared(*row, *other->second, least);
    if (problem.ratio > 0) logs += std::log(problem.ratio), ++timed;
    out.problems.push_back(std::move(problem));
  }
  out.only_b = of_b.size() - out.problems.size();
  if (timed > 0) out.geometric_mean = std::exp(logs / static_cast<double>(timed));
  std::ranges::stable_sort(out.problems, [](const ComparedProblem& one, const ComparedProblem& other) {
    const auto order = [](const ComparedProblem& p) {
      return p.verdict == CompareVerdict::lost ? -HUGE_VAL : -p.ratio;
    };
    return order(one) < order(other);
  });
  return out;
}

}  // namespace tilesmith
