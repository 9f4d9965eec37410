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
#include "trial/attention/trial.hpp"

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
  TS_ASSIGN(const std::unique_ptr<Trial> trial, make_trial(problem_case, dispatcher.device()));

  AttentionOutputs outputs = problem_case.make_outputs();
  TS_TRY(trial->run(*plan, outputs));
  if (!options.attention.out.empty() || !options.attention.lse.empty())
    TS_TRY(write_tensors(targets, std::array{problem_case.output_array(outputs),
                                             problem.lse ? problem_case.lse_array(outputs) : HostArray{}}));

  RunReport report{
      .operation = "attention_fwd", .problem = to_json(problem), .description = describe(problem), .plan = plan};
  if (!options.run.no_time) {
    TS_ASSIGN(report.timing, trial->time(*plan, {}));
  }
  if (options.run.verify) {
    const AttentionTensors tensors = problem_case.tensors();
    TS_ASSIGN(const AttentionReference reference,
              AttentionReference::make(tensors, output_element_type_of(problem)));
    TS_ASSIGN(report.verdict, trial->verify(*plan, reference));
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
