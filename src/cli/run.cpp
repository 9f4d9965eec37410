// tilesmith run: one problem, the chosen kernel, its time, its error.
#include <fmt/core.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/attention/options.hpp"
#include "cli/run_options.hpp"
#include "cli/tensor_file.hpp"
#include "cli/verbs.hpp"
#include "problem/json.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/trial.hpp"

namespace tilesmith::cli {
namespace {

struct RunAttentionOptions {
  AttentionOptions attention;
  RunOptions run;
};

Status run_attention(const RunAttentionOptions& options) {
  TS_ASSIGN(const DispatcherOptions dispatcher_options, options.run.dispatcher_options());
  const std::array targets{TensorTarget{options.attention.out, "o"}, TensorTarget{options.attention.lse, "lse"}};
  TS_TRY(check_targets(targets));
  TS_ASSIGN(const AttentionCase problem_case, make_case(options.attention));
  const AttentionProblem& problem = problem_case.problem();
  Dispatcher dispatcher(dispatcher_options);
  TS_ASSIGN(const AttentionPlan* plan, dispatcher.plan(problem));
  TS_ASSIGN(Trial<AttentionFwd> trial, make_trial(problem_case, dispatcher.device()));

  TS_ASSIGN(const HostOutputs outputs, trial.run(*plan));
  if (!options.attention.out.empty() || !options.attention.lse.empty())
    TS_TRY(write_tensors(targets, std::array{outputs.array("o"), outputs.array("lse")}));

  RunReport report{
      .operation = "attention_fwd", .problem = to_json(problem), .description = describe(problem), .plan = plan};
  if (!options.run.no_time) {
    TS_ASSIGN(report.timing, trial.time(*plan, {}));
  }
  if (options.run.verify) {
    TS_ASSIGN(const std::unique_ptr<const Reference> reference, problem_case.reference());
    TS_ASSIGN(report.verdict, trial.verify(*plan, *reference));
  }
  return print_report(options.run, report);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("run", "Run one problem with the kernel chosen for it");
  verb->require_subcommand(1);
  CLI::App* attention = verb->add_subcommand("attention_fwd", "Attention forward: softmax(scale q k^T + bias) v");
  auto options = std::make_shared<RunAttentionOptions>();
  options->attention.add_to(*attention);
  options->run.add_to(*attention);
  attention->callback([attention, options, &exit_code] {
    options->run.command = command_of(*attention);
    exit_code = exit_code_of(run_attention(*options));
  });
  add_run_gemm(*verb, exit_code);
}

}  // namespace tilesmith::cli
