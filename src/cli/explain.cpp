// tilesmith explain: which rule accepts or refuses a kernel, and by which figures.
#include "catalog/explain.hpp"

#include <fmt/core.h>

#include <memory>

#include "cli/verbs.hpp"

namespace tilesmith::cli {
namespace {

struct ExplainOptions {
  std::string name, arch;
  bool json = false;
};

Status explain_name(const ExplainOptions& options) {
  TS_ASSIGN(const std::vector<Explanation> explanations, explain(options.name, options.arch));
  if (options.json) {
    fmt::print("{}", explanations_json(explanations));
    return {};
  }
  for (const Explanation& each : explanations) fmt::print("{}", explanation_text(each));
  return {};
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("explain", "Why a kernel is or is not built on an architecture");
  auto options = std::make_shared<ExplainOptions>();
  verb->add_option("name", options->name, "A kernel's name, as tilesmith list prints it")->required();
  verb->add_option("--arch", options->arch, "Architecture; all that could have it when absent");
  verb->add_flag("--json", options->json, "One JSON document");
  verb->callback([options, &exit_code] { exit_code = exit_code_of(explain_name(*options)); });
}

}  // namespace tilesmith::cli
