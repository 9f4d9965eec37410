// tilesmith run gemm
#include <fmt/core.h>

#include <array>
#include <memory>

#include "cli/gemm/options.hpp"
#include "cli/run_options.hpp"
#include "cli/tensor_file.hpp"
#include "cli/verbs.hpp"
#include "problem/json.hpp"
#include "trial/trial.hpp"

namespace tilesmith::cli {
namespace {

struct RunGemmOptions {
  GemmOptions gemm;
  RunOptions run;
};

Status run_gemm(const RunGemmOptions& options) {
  TS_ASSIGN(const DispatcherOptions dispatcher_options, options.run.dispatcher_options());
  const std::array targets{TensorTarget{options.gemm.out, "d"}};
  TS_TRY(check_targets(targets));
  TS_ASSIGN(GemmCase problem_case, make_case(options.gemm));
  const GemmProblem& problem = problem_case.problem();
  Dispatcher dispatcher(dispatcher_options);
  TS_ASSIGN(const GemmPlan* plan, dispatcher.plan(problem));
  TS_TRY(problem_case.prepare(dispatcher));
  TS_ASSIGN(Trial<Gemm> trial, make_trial(problem_case, dispatcher.device()));

  TS_ASSIGN(const HostOutputs outputs, trial.run(*plan));
  if (!options.gemm.out.empty()) TS_TRY(write_tensors(targets, std::array{outputs.array("d")}));

  RunReport report{.operation = "gemm", .problem = to_json(problem), .description = describe(problem), .plan = plan};
  if (problem_case.wants_amax()) report.problem["amax"] = outputs.array("amax").to_floats().front();
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

void add_run_gemm(CLI::App& run, int& exit_code) {
  CLI::App* gemm = run.add_subcommand("gemm", "D = epilogue(alpha op(A) op(B) + beta C)");
  auto options = std::make_shared<RunGemmOptions>();
  options->gemm.add_to(*gemm);
  options->run.add_to(*gemm);
  gemm->callback([gemm, options, &exit_code] {
    options->run.command = command_of(*gemm);
    exit_code = exit_code_of(run_gemm(*options));
  });
}

}  // namespace tilesmith::cli
