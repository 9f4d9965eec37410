// tilesmith compare: two files of results, and whether the second is slower.
#include "sweep/compare.hpp"

#include <fmt/core.h>

#include <memory>

#include "base/json.hpp"
#include "cli/verbs.hpp"

namespace tilesmith::cli {
namespace {

struct CompareOptions {
  std::string a, b;
  double least_percent = 2;
  bool by_kernel = false, all = false, as_json = false;
};

nlohmann::json to_json(const ComparedProblem& problem) {
  return {{"problem", problem.problem},   {"line", problem.line},
          {"threads", problem.threads},   {"kernel_a", problem.kernel_a},
          {"kernel_b", problem.kernel_b}, {"a_s", problem.a_s},
          {"b_s", problem.b_s},           {"ratio", problem.ratio},
          {"noise", problem.noise},       {"verdict", name_of(problem.verdict)}};
}

void print(const ComparedProblem& problem) {
  if (problem.ratio > 0)
    fmt::print("{:7} {:6.3f} (noise {:.3f})  {:10.2f} us {:10.2f} us  {}\n", name_of(problem.verdict), problem.ratio,
               problem.noise, problem.a_s * 1e6, problem.b_s * 1e6, problem.line);
  else
    fmt::print("{:7} {}\n", name_of(problem.verdict), problem.line);
  if (problem.kernel_a != problem.kernel_b)
    fmt::print("        A {}\n        B {}\n", problem.kernel_a, problem.kernel_b);
}

Result<bool> compare(const CompareOptions& o) {
  TS_ASSIGN(const ResultFile a, read_results(o.a));
  TS_ASSIGN(const ResultFile b, read_results(o.b));
  const Comparison comparison = compare_results(a, b, o.by_kernel, o.least_percent / 100);
  if (comparison.problems.empty())
    return fail(
        ErrorCode::invalid_argument, fmt::format("{} and {} have no problem in common", o.a, o.b),
        o.by_kernel ? "without --by-kernel each file's fastest kernel is compared" : "results of the same shapes");
  if (o.as_json) {
    nlohmann::json document = {{"geometric_mean", comparison.geometric_mean},
                               {"only_a", comparison.only_a},
                               {"only_b", comparison.only_b},
                               {"worse", comparison.is_worse()},
                               {"problems", nlohmann::json::array()}};
    for (const ComparedProblem& problem : comparison.problems) document["problems"].push_back(to_json(problem));
    fmt::print("{}", json_text(document));
    return comparison.is_worse();
  }
  for (const ComparedProblem& problem : comparison.problems)
    if (o.all || problem.verdict != CompareVerdict::same) print(problem);
  fmt::print(
      "{} problems: {} slower, {} faster, {} within noise, {} lost, {} gained; B takes {:.3f} of A's time in geometric "
      "mean; "
      "{} problems of A alone, {} of B alone\n",
      comparison.problems.size(), comparison.count(CompareVerdict::slower), comparison.count(CompareVerdict::faster),
      comparison.count(CompareVerdict::same), comparison.count(CompareVerdict::lost),
      comparison.count(CompareVerdict::gained), comparison.geometric_mean, comparison.only_a, comparison.only_b);
  return comparison.is_worse();
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("compare", "Compare two files of results; exit status 1 where the second is slower");
  auto options = std::make_shared<CompareOptions>();
  verb->add_option("A", options->a, "Results of bench (CSV or JSON), usually the older")->required();
  verb->add_option("B", options->b, "The other results")->required();
  verb->add_flag("--by-kernel", options->by_kernel, "Compare rows of the same kernel, not the fastest of each problem");
  verb->add_option("--noise", options->least_percent, "Percent by which medians may always differ")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  verb->add_flag("--all", options->all, "Show what is within noise too");
  verb->add_flag("--json", options->as_json, "One JSON document on standard output");
  verb->callback([options, &exit_code] {
    const Result<bool> worse = compare(*options);
    exit_code = worse ? (*worse ? kFailure : kSuccess) : exit_code_of(std::unexpected(worse.error()));
  });
}

}  // namespace tilesmith::cli
