// tilesmith run: one problem, the chosen kernel, its time, its error.
#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bench/problem_json.hpp"
#include "bench/trial.hpp"
#include "cli/attention_options.hpp"
#include "cli/tensor_file.hpp"
#include "cli/verbs.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith::cli {
namespace {

struct RunOptions {
  AttentionOptions attention;
  std::string device = "cpu";
  std::string kernel;
  int threads = 0;
  bool verify = false;
  bool no_time = false;
  bool no_build = false;
  bool as_json = false;
};

Status run_attention(const RunOptions& options) {
  TS_ASSIGN(const Device device, parse_device(options.device));
  if (options.threads < 0 || options.threads > 4096)
    return fail(ErrorCode::invalid_argument, fmt::format("--threads {}", options.threads),
                "1 to 4096, or 0 for every processor");
  const std::array targets{TensorTarget{options.attention.out, "o"}, TensorTarget{options.attention.lse, "lse"}};
  TS_TRY(check_targets(targets));
  TS_ASSIGN(const AttentionCase problem_case, make_case(options.attention));
  const AttentionProblem& problem = problem_case.problem();
  Dispatcher dispatcher({.device = device,
                         .threads = options.threads,
                         .build = options.no_build ? BuildPolicy::never : BuildPolicy::allowed,
                         .kernel = options.kernel});
  TS_ASSIGN(const AttentionPlan* plan, dispatcher.plan(problem));
  TS_ASSIGN(const std::unique_ptr<Trial> trial, make_trial(problem_case, device));

  AttentionOutputs outputs = problem_case.make_outputs();
  TS_TRY(trial->run(*plan, outputs));
  if (!options.attention.out.empty() || !options.attention.lse.empty())
    TS_TRY(write_tensors(targets, std::array{problem_case.output_array(outputs),
                                             problem.lse ? problem_case.lse_array(outputs) : HostArray{}}));

  std::optional<TrialTiming> timing;
  if (!options.no_time) {
    TS_ASSIGN(timing, trial->time(*plan, {}));
  }
  std::optional<Verdict> verdict;
  if (options.verify) {
    const AttentionTensors tensors = problem_case.tensors();
    TS_ASSIGN(const AttentionExpectation expectation,
              AttentionExpectation::make(tensors, output_element_type_of(problem)));
    TS_ASSIGN(verdict, trial->verify(*plan, expectation));
  }

  if (options.as_json) {
    nlohmann::json out = {{"operation", "attention_fwd"}, {"problem", to_json(problem)},
                          {"device", to_string(device)},  {"kernel", plan->kernel_name()},
                          {"reason", plan->reason()},     {"workspace_bytes", plan->workspace_bytes()},
                          {"threads", options.threads}};
    if (timing) out["timing"] = to_json(*timing);
    if (verdict) out["verify"] = to_json(*verdict);
    fmt::print("{}", json_text(out));
  } else {
    fmt::print("problem  {}\n", describe(problem));
    fmt::print("kernel   {}\n", plan->kernel_name());
    fmt::print("chosen   {}\n", plan->reason());
    if (timing)
      fmt::print(
          "time     {:.4f} ms median of {}, best {:.4f}, spread {:.1f} %, cold caches\nrate     {:.1f} GFLOP/s, {:.1f} "
          "GB/s\n",
          timing->median_s * 1e3, timing->samples, timing->best_s * 1e3, timing->spread * 100, timing->gflops(),
          timing->gbps());
    if (verdict) {
      const ErrorFigures& e = verdict->output;
      fmt::print("error    max abs {:.3g}, max rel {:.3g}, RMS {:.3g}, {:.2f} of the naive computation's: {}\n",
                 e.max_abs, e.max_rel, e.rms, e.max_ratio, to_string(verdict->outcome));
      if (!verdict->reason.empty()) fmt::print("         {}\n", verdict->reason);
    }
  }
  if (verdict && verdict->outcome == Outcome::fail)
    return fail(ErrorCode::wrong_result,
                fmt::format("the result of {} is wrong: {}", plan->kernel_name(), verdict->reason),
                fmt::format("repeat with: {}", repro_command(problem)));
  return {};
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("run", "Run one problem with the kernel chosen for it");
  verb->require_subcommand(1);
  CLI::App* attention = verb->add_subcommand("attention_fwd", "Attention forward: softmax(scale q k^T + bias) v");
  auto options = std::make_shared<RunOptions>();
  options->attention.add_to(*attention);
  attention->add_option("--device", options->device, "Where to run: cpu or cuda:N")->capture_default_str();
  attention->add_option("--threads", options->threads, "Threads (default: every processor this process may use)");
  attention->add_option("--kernel", options->kernel, "Use this kernel, by its name");
  attention->add_flag("--verify", options->verify, "Compare with a float64 reference");
  attention->add_flag("--no-time", options->no_time, "Run once, without timing");
  attention->add_flag("--no-build", options->no_build, "Use only kernels that need no compilation");
  attention->add_flag("--json", options->as_json, "One JSON document on standard output");
  attention->callback([options, &exit_code] { exit_code = exit_code_of(run_attention(*options)); });
}

}  // namespace tilesmith::cli
