// tilesmith explain: which rule accepts or refuses a kernel, and by which figures.
#include "catalog/explain.hpp"

#include <fmt/core.h>

#include <memory>

#include "cli/selection.hpp"
#include "cli/verbs.hpp"
#include "vocabulary/names/name.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith::cli {
namespace {

struct ExplainOptions {
  std::string name, arch;
  bool json = false;
};

/// The steps of a recipe's name, or none for what is a kernel's name alone. Error: parse.
Result<std::vector<Step>> steps_of(const std::string& name) {
  if (name.find_first_of("+:") == std::string::npos) return std::vector<Step>{};
  TS_ASSIGN(Recipe recipe, parse_recipe_name(name));
  return std::move(recipe.steps);
}

Status explain_name(const ExplainOptions& options) {
  TS_ASSIGN(const std::vector<Step> steps, steps_of(options.name));
  std::vector<Explanation> all;
  const auto explain_kernel = [&](const std::string& name) -> Status {
    TS_ASSIGN(const std::vector<Explanation> explanations, explain(name, options.arch));
    for (const Explanation& each : explanations) warn_of_unused_values(each.config.arch.text());
    if (!options.json)
      for (const Explanation& each : explanations) fmt::print("{}", explanation_text(each));
    all.insert(all.end(), explanations.begin(), explanations.end());
    return {};
  };
  if (steps.empty()) TS_TRY(explain_kernel(options.name));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!options.json) fmt::print("step {} of {}, role {}\n", i + 1, steps.size(), name_of(steps[i].role));
    TS_TRY(explain_kernel(kernel_name(steps[i].config)));
  }
  if (options.json) fmt::print("{}", explanations_json(all));
  return {};
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("explain", "Why a kernel is or is not built on an architecture");
  auto options = std::make_shared<ExplainOptions>();
  verb->add_option("name", options->name,
                   "A kernel's name, as tilesmith list prints it, or a recipe's: names of steps joined by +")
      ->required();
  verb->add_option("--arch", options->arch, "Architecture; all that could have it when absent");
  verb->add_flag("--json", options->json, "One JSON document");
  verb->callback([options, &exit_code] { exit_code = exit_code_of(explain_name(*options)); });
}

}  // namespace tilesmith::cli
