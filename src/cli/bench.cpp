// tilesmith bench: candidates of a sweep on a shape matrix, measured in workers, as a table, CSV and JSON.
#include <fmt/core.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/file.hpp"
#include "base/progress.hpp"
#include "cli/operation_option.hpp"
#include "cli/output_place.hpp"
#include "cli/verbs.hpp"
#include "problem/json.hpp"
#include "sweep/engine.hpp"
#include "sweep/summary_table.hpp"

namespace tilesmith::cli {
namespace {

struct BenchCliOptions {
  std::string operation = "attention";
  std::string config;
  std::string shapes;
  std::string category = "smoke";
  std::string shard;
  std::string peers;
  std::string csv, json;
  std::string device = "cpu";
  bool verify = false, naive = false, compile_only = false, resume = false, dry_run = false, processor_time = false;
  int workers = 0, threads = 0, max_kernels = 0, max_problems = 0;
  std::optional<double> limit_s;
};

void add_options(CLI::App& verb, BenchCliOptions& o) {
  verb.add_option("--op", o.operation, "attention_fwd (or attention), or gemm")->capture_default_str();
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
  verb.add_option("--device", o.device, "Where to run: cpu or cuda:N")->capture_default_str();
  verb.add_option("--threads", o.threads, "A kernel's threads (default: every processor)");
  verb.add_flag("--processor-time", o.processor_time,
                "Count processor time, on a machine that others use too (with --threads 1)");
  verb.add_option("--max-kernels", o.max_kernels, "Candidates tried on each problem, the policy's best first");
  verb.add_option("--max-problems", o.max_problems, "Problems tried");
  verb.add_option("--limit", o.limit_s, "Seconds one candidate may take (default: the tier's timeout_s)");
}

Status write_json(const std::string& path, const nlohmann::json& document) {
  const std::string text = json_text(document);
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  return write_file_atomic(path, text);
}

/// The problems that the sweep's allow-lists leave, at most `most` of them (0: all).
BenchProblems allowed(BenchProblems problems, const BenchConfig& config, int most) {
  std::visit(
      [&](auto& list) {
        std::erase_if(list, [&](const auto& problem) { return !config.allows(problem); });
        if (most > 0 && list.size() > static_cast<std::size_t>(most)) list.erase(list.begin() + most, list.end());
      },
      problems);
  return problems;
}

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

Status bench(const BenchCliOptions& o) {
  BenchOptions options;
  if (o.workers < 0 || o.max_kernels < 0 || o.max_problems < 0)
    return fail(ErrorCode::invalid_argument, "a negative count", "0 or more");
  if (o.threads < 0 || o.threads > 4096)
    return fail(ErrorCode::invalid_argument, fmt::format("--threads {}", o.threads),
                "1 to 4096, or 0 for every processor");
  if (o.limit_s && !(*o.limit_s >= 0.001 && *o.limit_s <= 1e6))
    return fail(ErrorCode::invalid_argument, fmt::format("--limit {}", *o.limit_s), "0.001 to 1000000 seconds");
  if (o.resume && o.csv.empty())
    return fail(ErrorCode::invalid_argument, "--resume without --csv", "the file to go on with");
  TS_ASSIGN(const Operation operation, parse_operation_option(o.operation));
  if (!o.config.empty()) {
    TS_ASSIGN(const std::string text, read_file(o.config, 16u << 20));
    TS_ASSIGN(options.config, BenchConfig::parse(operation, o.config, text));
  }
  TS_ASSIGN(BenchProblems problems, load_problems(operation, o.shapes, o.category, o.shard));
  options.problems = allowed(std::move(problems), options.config, o.max_problems);
  if (std::visit([](const auto& list) { return list.empty(); }, options.problems))
    return fail(ErrorCode::invalid_argument, "no problem is left after the sweep's allow-lists",
                "wider lists, or another category");
  if (o.dry_run) return write_json("-", listing_of(options.problems));
  if (!o.json.empty() && o.json != "-") TS_TRY(check_output_place(o.json));
  PeerTimes peers;
  if (!o.peers.empty()) {
    TS_ASSIGN(const std::string text, read_file(o.peers, 64u << 20));
    TS_ASSIGN(peers, PeerTimes::parse(o.peers, text));
  }
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
  options.resume = o.resume;
  if (o.limit_s) {
    options.limit = std::chrono::milliseconds(static_cast<long long>(*o.limit_s * 1000));
  } else {
    TS_ASSIGN(options.limit, time_limit(operation, o.shapes, o.category));
  }

  nlohmann::json rows = nlohmann::json::array();
  SummaryTable table(peers);
  BenchProgress progress;
  const auto remark = [](std::size_t failed) { return failed == 0 ? std::string() : fmt::format("{} failed", failed); };
  std::unique_ptr<Progress> building;
  progress.building = [&](std::size_t done, std::size_t total, std::size_t failed) {
    if (!building) building = std::make_unique<Progress>("compiling", total);
    building->update(done, remark(failed));
  };
  std::unique_ptr<Progress> measuring;
  std::size_t failures = 0;
  progress.problem = [&](std::size_t problem, std::size_t count, const BenchProblem&) {
    building.reset();
    if (!measuring) measuring = std::make_unique<Progress>("measuring", count);
    measuring->update(problem, remark(failures));
  };
  std::set<std::string> compilers_words;  // a broken compiler says the same of every kernel
  progress.row = [&](const BenchRow& row) {
    if (!o.json.empty()) rows.push_back(to_json(row));
    if (row.status != RowStatus::correct && row.status != RowStatus::unverified && row.status != RowStatus::compiled) {
      ++failures;
      const bool is_new = row.status != RowStatus::compile || compilers_words.insert(row.message).second;
      fmt::print(stderr, "{}: {} on {}: {}\n", name_of(row.status), recipe_name(row.recipe), describe(row.problem),
                 is_new ? row.message : "as said before");
      fmt::print(stderr, "repeat with: tilesmith run {} --device {} --kernel {} --verify\n", row.line(), o.device,
                 recipe_name(row.recipe));
    }
    table.add(row);
  };
  std::map<std::string, std::size_t> skipped;
  progress.skipped = [&](const BenchProblem&, const Error& error) { ++skipped[error.message]; };

  TS_ASSIGN(const BenchSummary summary, run_bench(options, progress));
  measuring.reset();
  building.reset();

  nlohmann::json document = {{"rows", std::move(rows)},
                             {"resumed", summary.resumed},
                             {"wrong", summary.wrong},
                             {"failed", summary.failed},
                             {"without_result", summary.problems_without_result}};
  if (summary.peaks) document["peaks"] = to_json(*summary.peaks);
  document["skipped"] = nlohmann::json::object();
  for (const auto& [reason, count] : skipped) document["skipped"][reason] = count;
  if (o.json != "-") {
    table.print(stdout, summary);
    for (const auto& [reason, count] : skipped) fmt::print("{} problems skipped: {}\n", count, reason);
  }
  if (!o.json.empty()) TS_TRY(write_json(o.json, document));
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

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Measure the candidates of a sweep on a shape matrix");
  auto options = std::make_shared<BenchCliOptions>();
  verb->add_option("config", options->config, "Sweep file (JSON); all kernels when absent");
  verb->add_option("--category", options->category, "Tier of the shape matrix: smoke, full or nightly")
      ->capture_default_str();
  add_options(*verb, *options);
  verb->callback([options, &exit_code] { exit_code = exit_code_of(bench(*options)); });
}

void add_sweep(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("sweep", "Measure all candidates on a tier of the built-in shape matrix");
  auto options = std::make_shared<BenchCliOptions>();
  auto variant = std::make_shared<std::string>("fwd");
  verb->add_option("--category", options->category, "smoke, full or nightly")->capture_default_str();
  verb->add_option("--variant", *variant, "Attention variant: fwd")->capture_default_str();
  add_options(*verb, *options);
  verb->callback([options, variant, &exit_code] {
    exit_code = exit_code_of(
        *variant == "fwd" ? bench(*options)
                          : Status(fail(ErrorCode::unsupported,
                                        fmt::format("--variant {}: no kernel of it runs here", *variant), "fwd")));
  });
}

}  // namespace tilesmith::cli
