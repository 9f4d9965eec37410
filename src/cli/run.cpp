// tilesmith run: one problem, the chosen kernel, its time, its error; or every line of a file.
#include <fmt/core.h>

#include <memory>
#include <optional>

#include "base/json.hpp"
#include "cli/run_operation.hpp"
#include "cli/run_settings.hpp"
#include "cli/serving/run.hpp"
#include "cli/verbs.hpp"
#include "problem/describe.hpp"
#include "problem/json.hpp"
#include "runtime/poison.hpp"
#include "sweep/lines.hpp"
#include "trial/trial.hpp"

namespace tilesmith::cli {
namespace {

/// Runs the case and writes the outputs where `targets` say: those that were verified, and none that are wrong.
template <class Op>
Result<RunReport> run_case(Case<Op>& problem_case, Dispatcher& dispatcher, const RunSettings& settings,
                           const std::vector<TensorTarget>& targets) {
  const typename Op::Problem& problem = problem_case.problem();
  if (settings.verify) poisons_scratch = true;
  TS_ASSIGN(const auto* plan, dispatcher.plan(problem));
  // Before any kernel runs: one that spoils its inputs must not spoil what it is compared with.
  std::unique_ptr<const Reference> reference;
  if (settings.verify) {
    TS_ASSIGN(reference, problem_case.reference());
  }
  TS_TRY(problem_case.prepare(dispatcher));
  TS_ASSIGN(Trial<Op> trial, make_trial(problem_case, dispatcher.device()));

  RunReport report{
      .operation = std::string(Op::kName), .problem = to_json(problem), .description = describe(problem), .plan = plan};
  std::optional<HostOutputs> ran;
  if (reference) {
    TS_ASSIGN(VerifiedRun done, trial.run_verified(*plan, *reference));
    report.verdict = std::move(done.verdict);
    ran = std::move(done.outputs);
  } else {
    TS_ASSIGN(ran, trial.run(*plan));
  }
  const HostOutputs& outputs = *ran;
  RunOperation<Op>::add_figures(report.problem, problem_case, outputs);
  const auto wrong = [&] { return report.verdict && report.verdict->outcome == Outcome::fail; };
  if (!settings.no_time && !wrong()) {
    TS_ASSIGN(report.timing, trial.time(*plan, {}));
    if (reference) {  // once more: a kernel may be right at first and wrong after some calls
      TS_ASSIGN(Verdict again, trial.verify(*plan, *reference));
      if (again.outcome == Outcome::fail) report.verdict = std::move(again);
    }
  }
  if (wrong() && !settings.keep_wrong) return report;
  if (std::ranges::any_of(targets, [](const TensorTarget& target) { return !target.argument.empty(); })) {
    std::vector<HostArray> arrays;
    for (const TensorTarget& target : targets) arrays.push_back(outputs.array(target.default_name));
    TS_TRY(write_tensors(targets, arrays));
  }

  return report;
}

template <class Op>
struct RunArguments {
  typename RunOperation<Op>::Options problem;
  RunSettings settings;
  std::string files;  ///< the options that name files, as they were typed
};

/// The command that repeats a run: the same line that a sweep and a file of lines show, behind it what else was asked.
template <class Op>
std::string command_of(const RandomCall<Op>& call, const RunSettings& settings, std::string_view files = {}) {
  return fmt::format("tilesmith run {}{}{}", to_line(call), files, settings.typed());
}

/// The options of the verb that belong neither to the problem's line nor to the settings: they name files.
template <class Op>
std::string typed_files(const CLI::App& verb) {
  CLI::App settings;
  RunSettings unused;
  unused.add_to(settings);
  return typed_options(verb, [&](const CLI::Option& option) {
    const std::string name = option.get_name();
    return find_option<Op>(name) == nullptr && settings.get_option_no_throw(name) == nullptr;
  });
}

template <class Op>
Status run(const RunArguments<Op>& arguments) {
  TS_ASSIGN(const DispatcherOptions options, arguments.settings.dispatcher_options());
  const std::vector<TensorTarget> targets = RunOperation<Op>::targets(arguments.problem);
  TS_TRY(check_targets(targets));
  TS_ASSIGN(CallOnFiles<Op> given, read_call_on_files(arguments.problem));
  TS_ASSIGN(auto problem_case, Case<Op>::create(given.call, std::move(given.inputs)));
  Dispatcher dispatcher(options);
  TS_ASSIGN(const RunReport report, run_case<Op>(problem_case, dispatcher, arguments.settings, targets));
  return print_report(arguments.settings, report, command_of(given.call, arguments.settings, arguments.files));
}

/// What came of a line of a file.
struct LineResult {
  std::string_view word = "failed";  ///< passed, mistrusted, ran, unsupported or failed
  std::string kernel;
  std::string reason;
};

template <class Op>
LineResult result_of(const RandomCall<Op>& call, Dispatcher& dispatcher, const RunSettings& settings) {
  const auto report = [&]() -> Result<RunReport> {
    TS_ASSIGN(auto problem_case, Case<Op>::create(call));
    return run_case<Op>(problem_case, dispatcher, settings, {});
  }();
  if (!report)
    return {.word = report.error().code == ErrorCode::unsupported ? "unsupported" : "failed",
            .kernel = {},
            .reason = report.error().text()};
  LineResult result{.word = "ran", .kernel = std::string(report->plan->kernel_name()), .reason = {}};
  if (report->verdict) {
    result.word = report->verdict->outcome == Outcome::pass   ? "passed"
                  : report->verdict->outcome == Outcome::fail ? "failed"
                                                              : "mistrusted";
    result.reason = report->verdict->reason;
  }
  return result;
}

/// Runs every line of a file. An error when a result is wrong, when a run fails, and when there is none that succeeds.
Status run_file(const std::string& file, const RunSettings& settings) {
  TS_ASSIGN(const DispatcherOptions options, settings.dispatcher_options());
  TS_ASSIGN(const std::vector<LineOfFile> lines, read_lines(file));
  Dispatcher dispatcher(options);
  nlohmann::json document = nlohmann::json::array();
  std::size_t failed = 0, unsupported = 0;
  for (const auto& [number, call] : lines) {
    const LineResult result = std::visit([&](const auto& each) { return result_of(each, dispatcher, settings); }, call);
    const std::string line = to_line(call);
    failed += result.word == "failed";
    unsupported += result.word == "unsupported";
    if (settings.as_json) {
      document.push_back({{"line", number}, {"call", line}, {"result", result.word}, {"kernel", result.kernel}});
      if (!result.reason.empty()) document.back()["reason"] = result.reason;
    } else {
      fmt::print("{:11} {}:{}: {}\n", result.word, file, number, line);
      if (!result.reason.empty()) fmt::print("            {}\n", result.reason);
    }
    if (result.word == "failed")
      fmt::print(stderr, "repeat with: {}\n",
                 std::visit([&](const auto& each) { return command_of(each, settings); }, call));
    std::fflush(stdout);
  }
  if (settings.as_json)
    fmt::print("{}", json_text(document));
  else
    fmt::print("{} lines: {} failed, {} unsupported on {}\n", lines.size(), failed, unsupported,
               to_string(dispatcher.device()));
  if (failed > 0)
    return fail(ErrorCode::wrong_result, fmt::format("{}: {} of {} lines failed", file, failed, lines.size()),
                "each is printed with the command that repeats it");
  if (unsupported == lines.size())
    return fail(ErrorCode::unsupported, fmt::format("{}: no line ran on {}", file, to_string(dispatcher.device())),
                "lines that the device's kernels compute");
  return {};
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("run", "Run one problem with the kernel chosen for it, or every line of a file");
  verb->require_subcommand(0, 1);
  auto file = std::make_shared<std::string>();
  auto settings = std::make_shared<RunSettings>();
  verb->add_option("--file", *file,
                   "Run every line of this file: an operation and its options, as in gemm -m 3 --dtype fp32");
  settings->add_to(*verb);
  for_each_operation([&]<class Op>(Op) {
    CLI::App* operation = verb->add_subcommand(std::string(Op::kName), std::string(Op::kAbout));
    auto arguments = std::make_shared<RunArguments<Op>>();
    arguments->problem.add_to(*operation);
    arguments->settings.add_to(*operation);
    operation->callback([verb, operation, arguments, &exit_code] {
      if (std::ranges::any_of(verb->get_options(), [](const CLI::Option* option) { return option->count() > 0; }))
        throw CLI::ExtrasError("run", {"options before the operation"});  // CLI11's way to refuse a
                                                                          // command line
      arguments->files = typed_files<Op>(*operation);
      exit_code = exit_code_of(run(*arguments));
    });
  });
  add_serving(*verb, exit_code);
  verb->callback([verb, file, settings, &exit_code] {
    if (!verb->get_subcommands().empty()) return;
    if (file->empty()) throw CLI::RequiredError("An operation or --file");
    exit_code = exit_code_of(run_file(*file, *settings));
  });
}

}  // namespace tilesmith::cli
