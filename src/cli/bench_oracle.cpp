#include "cli/bench_oracle.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/file.hpp"
#include "base/json.hpp"
#include "catalog/candidates.hpp"
#include "choose/determinism.hpp"
#include "choose/inductor.hpp"
#include "cli/number_checks.hpp"
#include "cli/signals.hpp"
#include "cli/verbs.hpp"
#include "cli/work_progress.hpp"
#include "problem/line.hpp"
#include "sweep/lines.hpp"
#include "sweep/provenance.hpp"
#include "tune/oracle.hpp"
#include "tune/random_shapes.hpp"
#include "tune/regret.hpp"

namespace tilesmith::cli {
namespace {

/// The problems to measure, and the family of each.
struct Sampled {
  BenchProblems problems;
  std::vector<std::string> families;
};

template <class Op>
Result<Sampled> draw(const OracleCliOptions& o, const OracleSetting& setting, bool on_gpu) {
  SampleOptions options{.count = o.sample,
                        .seed = setting.seed,
                        .families = o.families,
                        .types = {},
                        .most_flops = (o.most_gflop > 0 ? o.most_gflop
                                       : on_gpu         ? 1000
                                                        : 1) *
                                      1e9,
                        .most_bytes = on_gpu ? 6e8 : 2.5e8};
  for (const std::string& type : o.types) {
    TS_ASSIGN(const DataType parsed, parse_enum<DataType>(type));
    options.types.push_back(parsed);
  }
  TS_ASSIGN(std::vector<DrawnProblem<Op>> drawn, draw_problems<Op>(options));
  Sampled sampled;
  std::vector<typename Op::Problem> problems;
  for (DrawnProblem<Op>& each : drawn) {
    problems.push_back(std::move(each.problem));
    sampled.families.push_back(std::move(each.family));
  }
  sampled.problems = std::move(problems);
  return sampled;
}

Result<Sampled> sampled_problems(const OracleCliOptions& o, const OracleSetting& setting, bool on_gpu) {
  if (setting.problems) {
    if (!o.families.empty() || !o.types.empty())
      return fail(ErrorCode::invalid_argument, "--families or --types beside problems that are given",
                  "they say what is drawn at random");
    return Sampled{*setting.problems, {}};
  }
  Result<Sampled> sampled = fail(ErrorCode::unsupported, "no problems of this operation can be drawn");
  any_operation([&]<class Op>(Op) {
    if (!setting.operation.is<Op>()) return false;
    sampled = draw<Op>(o, setting, on_gpu);
    return true;
  });
  return sampled;
}

Status report(std::span<const OracleRow> rows, const OracleSetting& setting, nlohmann::json document) {
  const std::vector<RegretFigure> figures = regret_of(rows);
  if (setting.json.empty()) {
    fmt::print("{}", regret_text(figures));
    return {};
  }
  document["regret"] = nlohmann::json::array();
  for (const RegretFigure& f : figures)
    document["regret"].push_back({{"family", f.family},
                                  {"policy", f.policy},
                                  {"problems", f.problems},
                                  {"mean", f.mean},
                                  {"p90", f.p90},
                                  {"worst", f.worst},
                                  {"worst_problem", f.worst_problem}});
  const std::string text = json_text(document);
  if (setting.json != "-") return write_file_atomic(setting.json, text);
  std::fputs(text.c_str(), stdout);
  return {};
}

struct RankedAnew {
  std::size_t problems = 0;
  std::size_t first_unmeasured = 0;  ///< problems whose first candidate has no time in the file
};

/// Gives rows the rank, the prediction and the sets that this program has for them. Recipes that it does not rank go
/// last. Errors: those of reading a problem's line and of ranking it.
Result<RankedAnew> rank_anew(std::vector<OracleRow>& rows, const DeviceFacts& facts, Determinism determinism) {
  RankedAnew done;
  std::map<std::string, std::vector<OracleRow*>> by_problem;
  for (OracleRow& row : rows) by_problem[row.problem].push_back(&row);
  for (const auto& [line, of_problem] : by_problem) {
    TS_ASSIGN(const AnyRandomCall call, parse_line(line));
    const AnyProblem problem = std::visit(
        []<class Op>(const RandomCall<Op>& each) { return AnyProblem(BenchOperation<Op>::measured(each.problem)); },
        call);
    TS_ASSIGN(CandidateList list, list_candidates(facts, problem));
    TS_TRY(order_for(determinism, list.ranking.candidates));
    std::map<Key128, std::size_t> places;
    for (std::size_t i = 0; i < list.ranking.candidates.size(); ++i)
      places.emplace(key_of(list.ranking.candidates[i].recipe), i);
    const std::vector<std::size_t> inductor = std::visit(
        [&](const auto& one) { return selected(SelectionPolicy::inductor, one, list.ranking.candidates); }, problem);
    bool has_first = false;
    for (OracleRow* row : of_problem) {
      const auto place = places.find(row->recipe);
      row->rank = place == places.end() ? list.ranking.candidates.size() : place->second;
      row->predicted_s = place == places.end() ? std::numeric_limits<double>::infinity()
                                               : list.ranking.candidates[place->second].predicted_seconds;
      const bool is_inductors = place != places.end() && std::ranges::find(inductor, place->second) != inductor.end();
      row->sets = is_inductors ? "inductor" : "";
      has_first = has_first || row->rank == 0;
    }
    ++done.problems;
    done.first_unmeasured += has_first ? 0 : 1;
  }
  return done;
}

}  // namespace

void OracleCliOptions::add_to(CLI::App& verb) {
  const char* group = "How well policies choose (--oracle)";
  verb.add_flag("--oracle", wanted, "Measure all candidates in split samples, and print the regret of policies")
      ->group(group);
  verb.add_option("--judge", judged, "Print the regret from the --csv file of an earlier --oracle; measures nothing")
      ->group(group);
  verb.add_option("--arch", arch,
                  "With --judge: rank the candidates anew for this architecture (as list does), by the models of this "
                  "program")
      ->group(group);
  verb.add_option("--sample,--samples", sample, "Random problems, unless problems are given")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--families", families, "Families of shapes that are drawn (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option("--types", types, "Data types that are drawn (default: bf16)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option("--gflop", most_gflop, "Draw no problem of more work (default: 1, on a GPU 1000)")
      ->check(positive())
      ->group(group);
  verb.add_option("--verify-gflop", verified_gflop, "Time problems of more work without verification")
      ->check(non_negative())
      ->capture_default_str()
      ->group(group);
  verb.add_option(
          "--candidates", candidates,
          "Candidates of a problem: dispatch's first 8, the model's first, and a sample of the others, the same "
          "kernels for each problem as far as they are valid; 0: all")
      ->check(non_negative())
      ->capture_default_str()
      ->group(group);
  verb.add_option("--rounds", rounds, "Turns of each candidate, an even number: one half judges the other")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--cut", cut, "At the first look a candidate drops out that is slower than the best by this factor")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--budget", budget_s, "Seconds of measuring in all; problems that are left then are left out")
      ->check(non_negative())
      ->group(group);
  verb.add_option("--determinism", determinism, "bitwise, or tolerant: recipes too whose bits differ from run to run")
      ->capture_default_str()
      ->group(group);
}

Status bench_oracle(const OracleCliOptions& o, const OracleSetting& setting) {
  if (!o.judged.empty()) {
    TS_ASSIGN(const std::string text, read_file(o.judged));
    TS_ASSIGN(std::vector<OracleRow> rows, parse_oracle(o.judged, text));
    nlohmann::json document = nlohmann::json::object();
    if (!o.arch.empty()) {
      TS_ASSIGN(const DeviceFacts facts, facts_of(o.arch, std::max(setting.threads, 1)));
      TS_ASSIGN(const Determinism determinism, parse_enum<Determinism>(o.determinism));
      TS_ASSIGN(const RankedAnew anew, rank_anew(rows, facts, determinism));
      document = {{"problems", anew.problems}, {"first_unmeasured", anew.first_unmeasured}};
      if (setting.json.empty())
        fmt::print("{} problems ranked anew; of {} the first was not measured, and the next that was stands for it\n",
                   anew.problems, anew.first_unmeasured);
    }
    return report(rows, setting, std::move(document));
  }
  if (!o.arch.empty())
    return fail(ErrorCode::invalid_argument, "--arch without --judge", "--device says what measures");
  if (o.rounds % 2 != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("--rounds {}", o.rounds), "an even number");
  if (setting.resume && setting.csv.empty())
    return fail(ErrorCode::invalid_argument, "--resume without --csv", "the file to go on with");
  OracleOptions options;
  TS_ASSIGN(options.device, parse_device(setting.device));
  const bool on_gpu = is_gpu(options.device.kind);
  if (setting.processor_time && (setting.threads != 1 || on_gpu))
    return fail(ErrorCode::invalid_argument, "--processor-time counts one thread's", "--threads 1 --device cpu");
  TS_ASSIGN(Sampled sampled, sampled_problems(o, setting, on_gpu));
  if (setting.dry_run) {
    std::visit(
        [&](const auto& problems) {
          for (std::size_t i = 0; i < problems.size(); ++i)
            fmt::print("{}  # {}\n", to_line(problems[i], kSweepSeed),
                       sampled.families.empty() ? "given" : sampled.families[i]);
        },
        sampled.problems);
    return {};
  }
  TS_ASSIGN(options.determinism, parse_enum<Determinism>(o.determinism));
  options.problems = std::move(sampled.problems);
  options.families = std::move(sampled.families);
  options.threads = setting.threads;
  options.workers = setting.workers;
  options.candidates = o.candidates;
  options.rounds = o.rounds;
  options.cut = o.cut;
  options.budget_s = o.budget_s;
  options.verified_flops = o.verified_gflop * 1e9;
  options.processor_time = setting.processor_time;
  options.seed = setting.seed;
  options.limit = std::chrono::milliseconds(static_cast<long long>(setting.limit_s * 1000));
  options.csv = setting.csv;
  options.resume = setting.resume;
  options.stop = [] { return remembered_signal() != 0; };
  const nlohmann::json about = provenance(options.device, setting.threads, options.limit);
  options.about = about_lines(about);

  OracleProgress progress;
  WorkProgress work("measuring");
  progress.building = [&](std::size_t done, std::size_t total, std::size_t failed) {
    work.compiled(done, total, failed);
  };
  progress.problem = [&](std::size_t problem, std::size_t problems, const std::string&) {
    if (problem == 0) remember_first_signal();
    work.worked(problem, problems);
  };
  progress.skipped = [&](const std::string& line, const Error& error) {
    fmt::print(stderr, "skipped: {}: {}\n", line, error.text());
  };
  TS_ASSIGN(const OracleResult result, measure_all(options, progress));
  work.end(result.measured);
  std::size_t failed = 0, unverified = 0;
  for (const OracleRow& row : result.rows) {
    unverified += row.status == OracleStatus::unverified ? 1 : 0;
    if (row.status != OracleStatus::failed) continue;
    ++failed;
    fmt::print(stderr, "failed: {} --kernel {}: {}\n", row.problem, row.name, row.message);
  }
  if (setting.json.empty())
    fmt::print(
        "{} problems measured, {} were in the file, {} skipped, {} left out for want of time; of {} candidates {} "
        "failed, {} are unverified\n",
        result.measured, result.resumed, result.skipped, result.left_out, result.rows.size(), failed, unverified);
  return report(result.rows, setting,
                {{"about", about},
                 {"measured", result.measured},
                 {"resumed", result.resumed},
                 {"skipped", result.skipped},
                 {"left_out", result.left_out},
                 {"candidates", result.rows.size()},
                 {"failed", failed},
                 {"unverified", unverified}});
}

}  // namespace tilesmith::cli
