// tilesmith bench: candidates of a sweep on a shape matrix, measured in workers, as a table, CSV and JSON.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_report.hpp"
#include "cli/bench_words.hpp"
#include "cli/operation_option.hpp"
#include "cli/output_place.hpp"
#include "cli/signals.hpp"
#include "cli/verbs.hpp"
#include "problem/json.hpp"
#include "runtime/cpu/machine.hpp"
#include "sweep/axes.hpp"
#include "sweep/engine.hpp"
#include "sweep/provenance.hpp"

namespace tilesmith::cli {

void BenchCliOptions::add_to(CLI::App& verb) {
  BenchCliOptions& o = *this;
  verb.add_option("--op", o.operation, "attention_fwd (or attention, the default), attention_bwd, gemm or conv");
  verb.add_option("--problem", o.problems.lines, "A problem as one line, as rows and `run` have it; as often as wanted")
      ->allow_extra_args(false);
  verb.add_option("--shapes", o.shapes,
                  "Shape matrix (YAML; default: the built-in one), or problems, a line each (.txt)");
  verb.add_option("--shard", o.shard, "I/N: every N-th problem, chosen by a stable hash");
  verb.add_option("--peers", o.peers, "JSON of other libraries' times, to compare with (bench/peers writes it)");
  verb.add_option("--csv", o.csv, "Append results to this file, row by row");
  verb.add_option("--json", o.json, "Write results as one JSON document; - is standard output");
  verb.add_flag("--verify", o.verify, "Compare every result with a float64 reference");
  verb.add_flag("--naive", o.naive, "Time the naive computation of each problem too");
  verb.add_flag("--compile-only", o.compile_only, "Build the kernels and stop");
  verb.add_flag("--resume", o.resume, "Go on with the --csv file: skip what it holds");
  verb.add_flag("--dry-run", o.dry_run, "Print the problems as JSON and stop");
  verb.add_option("--workers", o.workers, "Compilers at a time");
  verb.add_option("--device", o.device, "Where to run: cpu, cuda:N or hip:N")->capture_default_str();
  verb.add_option("--threads", o.threads, "A kernel's threads (default: every processor)");
  verb.add_flag("--processor-time", o.processor_time,
                "Count processor time, on a machine that others use too (with --threads 1)");
  verb.add_option("--max-kernels", o.max_kernels, "Candidates tried on each problem, the policy's best first");
  verb.add_option("--max-problems", o.max_problems, "Problems tried");
  verb.add_option("--min-time", o.min_time_s, "Seconds that a candidate is measured at least");
  verb.add_option("--target-spread", o.target_spread,
                  "Interquartile range over median above which a time is taken again and at last flagged as noisy")
      ->capture_default_str();
  verb.add_option("--retakes", o.retakes, "How often a noisy time is taken again")->capture_default_str();
  verb.add_option("--limit", o.limit_s, "Seconds one candidate may take (default: the tier's timeout_s)");
}

namespace {

int usable_threads() {
  const auto& machine = this_cpu_machine();
  return machine ? machine->threads : 0;
}

Status write_json(const std::string& path, const nlohmann::json& document) {
  const std::string text = json_text(document);
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  return write_file_atomic(path, text);
}

}  // namespace

BenchProblems allowed(BenchProblems problems, const BenchConfig& config, int most) {
  std::visit(
      [&](auto& list) {
        std::erase_if(list, [&](const auto& problem) { return !config.allows(problem); });
        if (most > 0 && list.size() > static_cast<std::size_t>(most)) list.erase(list.begin() + most, list.end());
      },
      problems);
  return problems;
}

namespace {

/// Every problem, with the line that names it in tables.
nlohmann::json listing_of(const BenchProblems& problems) {
  nlohmann::json out = nlohmann::json::array();
  std::visit(
      [&](const auto& list) {
        for (const BenchProblem problem : list) {
          out.push_back(to_json(problem));
          out.back()["problem"] = describe(problem);
        }
      },
      problems);
  return out;
}

/// The operation that --op names; none: that of the problems on the command line, else attention.
Result<RowChoice> named_operation(const BenchCliOptions& o) {
  return parse_row_option(o.operation.empty() ? "attention" : o.operation);
}

}  // namespace

Result<BenchProblems> problems_of(const BenchCliOptions& o) {
  if (o.problems.empty()) {
    TS_ASSIGN(const RowChoice operation, named_operation(o));
    return load_problems(operation, o.shapes, o.category, o.shard);
  }
  if (!o.shapes.empty())
    return fail(ErrorCode::invalid_argument, "--shapes beside problems on the command line", "one of them");
  ProblemWords words = o.problems;
  if (!o.operation.empty()) {
    TS_ASSIGN(words.operation, parse_row_option(o.operation));
  }
  Shard part;
  if (!o.shard.empty()) {
    TS_ASSIGN(part, Shard::parse(o.shard));
  }
  return problems_of_words(words, part);
}

namespace {

/// Options of the verb that mean nothing to an oracle are refused, so that nobody believes that they did something.
Status check_for_oracle(const CLI::App& verb) {
  for (const char* name : {"--peers", "--verify", "--naive", "--compile-only", "--max-kernels", "--max-problems",
                           "--min-time", "--target-spread", "--retakes"})
    if (verb.get_option(name)->count() > 0)
      return fail(ErrorCode::invalid_argument, fmt::format("{} beside --oracle", name),
                  "--oracle verifies, and measures by --rounds, --candidates, --sample and --budget");
  return {};
}

Status oracle_of(const CLI::App& verb, const BenchCliOptions& o) {
  TS_TRY(check_for_oracle(verb));
  OracleSetting setting{.device = o.device,
                        .csv = o.csv,
                        .json = o.json,
                        .threads = o.threads,
                        .workers = o.workers,
                        .limit_s = o.limit_s.value_or(60),
                        .resume = o.resume,
                        .processor_time = o.processor_time,
                        .dry_run = o.dry_run};
  if (!o.config.empty()) return fail(ErrorCode::invalid_argument, "a sweep file beside --oracle", "--candidates N");
  if (o.seed) {
    const char* end = o.seed->data() + o.seed->size();
    if (const auto [last, error] = std::from_chars(o.seed->data(), end, setting.seed);
        error != std::errc{} || last != end)
      return fail(ErrorCode::invalid_argument, fmt::format("--seed {}", *o.seed), "one whole number, with --oracle");
  }
  TS_ASSIGN(setting.operation, named_operation(o));
  if (!o.problems.empty() || !o.shapes.empty() || verb.get_option("--category")->count() > 0) {
    TS_ASSIGN(setting.problems, problems_of(o));
  }
  return bench_oracle(o.oracle, setting);
}

RowChoice operation_of(const BenchProblems& problems) {
  return std::visit(
      []<class Problem>(const std::vector<Problem>&) { return RowChoice::of<typename OperationOf<Problem>::type>(); },
      problems);
}

}  // namespace

namespace {

Status check(const BenchCliOptions& o) {
  if (o.workers < 0 || o.max_kernels < 0 || o.max_problems < 0)
    return fail(ErrorCode::invalid_argument, "a negative count", "0 or more");
  if (o.threads < 0 || o.threads > 4096)
    return fail(ErrorCode::invalid_argument, fmt::format("--threads {}", o.threads),
                "1 to 4096, or 0 for every processor");
  if (o.limit_s && !(*o.limit_s >= 0.001 && *o.limit_s <= 1e6))
    return fail(ErrorCode::invalid_argument, fmt::format("--limit {}", *o.limit_s), "0.001 to 1000000 seconds");
  if (!(o.min_time_s >= 0 && o.min_time_s <= 3600))
    return fail(ErrorCode::invalid_argument, fmt::format("--min-time {}", o.min_time_s), "0 to 3600 seconds");
  if (!(o.target_spread > 0 && o.target_spread <= 10))
    return fail(ErrorCode::invalid_argument, fmt::format("--target-spread {}", o.target_spread),
                "a share of the median, such as 0.05");
  if (o.retakes < 0 || o.retakes > 100)
    return fail(ErrorCode::invalid_argument, fmt::format("--retakes {}", o.retakes), "0 to 100");
  if (o.resume && o.csv.empty())
    return fail(ErrorCode::invalid_argument, "--resume without --csv", "the file to go on with");
  return {};
}

/// The problems that the sweep file leaves, and what it says of kernels.
Status take_problems(const BenchCliOptions& o, BenchProblems problems, RowChoice operation, BenchOptions& options) {
  if (!o.config.empty()) {
    TS_ASSIGN(const std::string text, read_file(o.config, 16u << 20));
    TS_ASSIGN(options.config, BenchConfig::parse(operation, o.config, text));
  }
  options.problems = allowed(std::move(problems), options.config, o.max_problems);
  if (std::visit([](const auto& list) { return list.empty(); }, options.problems))
    return fail(ErrorCode::invalid_argument, "no problem is left after the sweep's allow-lists",
                "wider lists, or another category");
  return {};
}

Status take_numbers(const BenchCliOptions& o, RowChoice operation, BenchOptions& options) {
  TS_ASSIGN(options.device, parse_device(o.device));
  if (o.processor_time && (o.threads != 1 || is_gpu(options.device.kind)))
    return fail(ErrorCode::invalid_argument, "--processor-time counts one thread's", "--threads 1 --device cpu");
  options.measure.processor_time = o.processor_time;
  options.verify = o.verify;
  options.naive = o.naive;
  options.compile_only = o.compile_only;
  options.workers = o.workers;
  options.threads = o.threads;
  options.max_kernels = o.max_kernels;
  options.csv = o.csv;
  options.noisy_above = o.target_spread;
  options.retakes = o.retakes;
  options.measure.min_time = std::chrono::duration<double>(o.min_time_s);
  options.measure.target_spread = std::min(options.measure.target_spread, o.target_spread);
  options.stop = [] { return remembered_signal() != 0; };
  options.resume = o.resume;
  if (!o.limit_s && !o.problems.empty()) {
    options.limit = std::chrono::seconds(60);
  } else if (o.limit_s) {
    options.limit = std::chrono::milliseconds(static_cast<long long>(*o.limit_s * 1000));
  } else {
    TS_ASSIGN(options.limit, time_limit(operation, o.shapes, o.category));
  }
  return {};
}

Status verdict(const BenchSummary& summary) {
  if (summary.stopped) return {};
  if (summary.rows + summary.resumed + summary.skipped_problems == 0)
    return fail(ErrorCode::invalid_argument, "no kernel is left after the sweep's allow-lists",
                "wider lists of arch, pipeline, instruction, tile_m and tile_n");
  if (summary.wrong > 0)
    return fail(ErrorCode::wrong_result, fmt::format("{} results are wrong", summary.wrong), "their rows say how");
  if (summary.problems_without_result > 0)
    return fail(ErrorCode::wrong_result,
                fmt::format("{} problems have no result: every candidate failed", summary.problems_without_result),
                "their rows say why");
  return {};
}

}  // namespace

Status bench(const BenchCliOptions& o) {
  TS_TRY(check(o));
  BenchOptions options;
  TS_ASSIGN(BenchProblems problems, problems_of(o));
  const RowChoice operation = operation_of(problems);
  TS_TRY(take_problems(o, std::move(problems), operation, options));
  if (o.dry_run) return write_json("-", listing_of(options.problems));
  if (!o.json.empty() && o.json != "-") TS_TRY(check_output_place(o.json));
  PeerTimes peers;
  if (!o.peers.empty()) {
    TS_ASSIGN(const std::string text, read_file(o.peers, 64u << 20));
    TS_ASSIGN(peers, PeerTimes::parse(o.peers, text));
  }
  TS_TRY(take_numbers(o, operation, options));
  const int threads = is_gpu(options.device.kind) ? 0 : o.threads > 0 ? o.threads : usable_threads();
  const nlohmann::json about = provenance(options.device, threads, options.limit);
  options.about = about_lines(about);

  BenchReport report(std::move(peers), o.device, !o.json.empty());
  TS_ASSIGN(const BenchSummary summary, run_bench(options, report.progress()));
  report.end(summary);
  if (o.json != "-") report.print(summary);
  if (!o.json.empty()) TS_TRY(write_json(o.json, report.document(summary, about)));
  return verdict(summary);
}

namespace {

/// Words that no option takes describe problems, and one may be the sweep file.
void run_verb(const CLI::App& verb, BenchCliOptions& options, int& exit_code) {
  auto words = bench_words(verb);
  if (!words) {
    exit_code = exit_code_of(std::unexpected(words.error()));
    return;
  }
  options.config = std::move(words->config);
  options.problems.words = std::move(words->problem);
  const bool by_oracle = options.oracle.wanted || !options.oracle.judged.empty();
  if (options.seed && !by_oracle)
    options.problems.words.insert(options.problems.words.end(), {"--seed", *options.seed});
  exit_code = exit_code_of(by_oracle ? oracle_of(verb, options) : bench(options));
  if (remembered_signal() != 0) exit_code = 128 + remembered_signal();
}

constexpr const char* kProblems =
    "Problems: the options of `tilesmith run OPERATION`, each with several values and the product of them all:\n"
    "  tilesmith bench -m 1,8,16:128:16 -n 4096 -k 1024:16384:*2 --dtype bf16,fp32\n"
    "START:END:STEP is a range, START:END:*FACTOR one that grows by a factor. Without such options a shape matrix is\n"
    "run: --shapes, --category.";

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "bench",
      "Measure candidates: bench [SWEEP.json] and problems, or a shape matrix; SWEEP.json allows some kernels");
  auto options = std::make_shared<BenchCliOptions>();
  verb->add_option("--category", options->category, "Tier of the shape matrix: smoke, full or nightly")
      ->capture_default_str();
  options->add_to(*verb);
  verb->add_option("--seed", options->seed, "Of the random problems of --oracle; else of a problem's random inputs");
  options->oracle.add_to(*verb);
  verb->allow_extras();
  verb->footer(kProblems);
  verb->callback([verb, options, &exit_code] { run_verb(*verb, *options, exit_code); });
}

}  // namespace tilesmith::cli
