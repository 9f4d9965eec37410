// tilesmith tune: races the candidates of problems on a device and keeps what was measured.
#include <fmt/core.h>

#include <sys/resource.h>

#include <map>
#include <memory>
#include <thread>

#include "base/json.hpp"
#include "cli/logged_problems.hpp"
#include "cli/number_checks.hpp"
#include "cli/performance_database.hpp"
#include "cli/problem_arguments.hpp"
#include "cli/slurm_job.hpp"
#include "cli/tune_ranges.hpp"
#include "cli/verbs.hpp"
#include "cli/work_progress.hpp"
#include "tune/choices.hpp"
#include "tune/tuner.hpp"

namespace tilesmith::cli {
namespace {

struct TuneCliOptions {
  std::string shapes, log, category, shard, database, publish, device = "cpu", determinism = "bitwise",
                                                               policy = "dispatch";
  std::vector<std::string> slurm_options;
  int threads = 0, workers = 0, candidates = 32, max_problems = 0, max_sizes = 64, slurm = 0;
  double budget_s = 10, limit_s = 60, follow_s = 0;
  std::uint64_t seed = 1;
  bool again = false, resume = false, as_json = false, slurm_script = false;

  void add_to(CLI::App& verb) {
    const char* group = "Which problems, beside the one that the options describe";
    verb.add_option("--shapes", shapes, "Those of a shape matrix (YAML) or of a file of lines (.txt)")->group(group);
    verb.add_option("--from-log", log, "Those that a log names: output of run or tune, or of TILESMITH_LOG=debug")
        ->group(group);
    verb.add_option("--category", category, "Those of a tier of the shape matrix: smoke, full or nightly")
        ->group(group);
    verb.add_option("--shard", shard, "I/N: of these every N-th, chosen by a stable hash")->group(group);
    verb.add_option("--max-sizes", max_sizes, "Of ranges of sizes (-m 1:8192 --batch 1:16) at most so many are raced")
        ->check(CLI::Range(2, 100'000))
        ->capture_default_str()
        ->group(group);
    verb.add_option("--max-problems", max_problems, "Of these at most so many")->check(non_negative())->group(group);
    group = "How they are tuned";
    verb.add_option("--db", database, "The performance database (default: tuning.db in the cache directory)")
        ->group(group);
    verb.add_option("--publish", publish, "Write the choices of the whole database to this file, as `db publish` does")
        ->group(group);
    verb.add_option(
            "--follow", follow_s,
            "With --from-log: read the log again after so many seconds, tune what it has since met, and publish; "
            "until a signal ends it. Runs at low priority")
        ->check(CLI::Range(0.01, 1e6))
        ->group(group);
    verb.add_option("--device", device, "cpu, cuda:N or hip:N")->capture_default_str()->group(group);
    verb.add_option("--threads", threads, "CPU: threads of a call (default: every processor)")
        ->check(CLI::Range(0, 4096))
        ->group(group);
    verb.add_option("--workers", workers, "Compilers at a time")->check(CLI::Range(0, 1024))->group(group);
    verb.add_option("--candidates", candidates, "Recipes that race for a problem, the policy's best first; 0: all")
        ->check(non_negative())
        ->capture_default_str()
        ->group(group);
    verb.add_option("--budget", budget_s, "Seconds of timing for a problem")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str()
        ->group(group);
    verb.add_option("--limit", limit_s, "Seconds that one step of a race may take")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str()
        ->group(group);
    verb.add_option("--determinism", determinism, "bitwise, or tolerant: recipes too whose bits differ from run to run")
        ->capture_default_str()
        ->group(group);
    verb.add_option(
            "--policy", policy,
            "Which recipes race beside the one chosen today: dispatch's first, the model's first (model), or those "
            "nearest to the configs that PyTorch's Inductor would time (inductor, inductor_exhaustive)")
        ->capture_default_str()
        ->group(group);
    verb.add_option("--race-seed", seed, "Of the order of turns")->capture_default_str()->group(group);
    verb.add_flag("--again", again, "Race problems too that the database has for this class of devices")->group(group);
    verb.add_flag("--resume", resume, "Go on where an earlier run stopped (what the database has is always kept)")
        ->group(group);
    verb.add_flag("--json", as_json, "One JSON document on standard output")->group(group);
    group = "As a Slurm job array";
    verb.add_option("--slurm", slurm,
                    "Submit so many parts, each a task, and a job that merges their databases into --db")
        ->check(CLI::Range(1, 10000))
        ->group(group);
    verb.add_option("--slurm-option", slurm_options,
                    "For sbatch, as in --slurm-option=--partition=gpu; may be repeated")
        ->group(group);
    verb.add_flag("--slurm-script", slurm_script, "Write the scripts, and submit nothing")->group(group);
  }

  [[nodiscard]] bool lists_problems() const { return !shapes.empty() || !log.empty() || !category.empty(); }
};

nlohmann::json to_json(const TuneOutcome& outcome) {
  return {{"problem", outcome.line},          {"before", outcome.before},     {"chosen", outcome.chosen},
          {"before_s", outcome.before_s},     {"chosen_s", outcome.chosen_s}, {"gain", outcome.gain},
          {"candidates", outcome.candidates}, {"failed", outcome.failed},     {"timings", outcome.timings},
          {"seconds", outcome.seconds}};
}

void print(const TuneOutcome& outcome) {
  fmt::print("{}\n", outcome.line);
  if (outcome.chosen == outcome.before)
    fmt::print("  {:10.2f} us  {} stays", outcome.chosen_s * 1e6, outcome.chosen);
  else if (outcome.before_s > 0)
    fmt::print("  {:10.2f} us  {} instead of {}, {:.3f} x faster", outcome.chosen_s * 1e6, outcome.chosen,
               outcome.before, outcome.gain);
  else
    fmt::print("  {:10.2f} us  {} instead of {}, which failed", outcome.chosen_s * 1e6, outcome.chosen, outcome.before);
  fmt::print(" ({} candidates, {} failed, {} timings in {:.1f} s)\n", outcome.candidates, outcome.failed,
             outcome.timings, outcome.seconds);
  std::fflush(stdout);
}

/// Problems of one operation that the log names; lines that cannot be read are said.
template <class Op>
Result<BenchProblems> problems_of_log(const TuneCliOptions& o) {
  TS_ASSIGN(std::string text, read_file(o.log));
  if (o.follow_s > 0) text.resize(text.rfind('\n') + 1);  // what follows is a line that is being written
  const LoggedProblems logged = problems_in_log(text, o.log);
  for (const std::string& why : logged.refused) fmt::print(stderr, "no problem: {}\n", why);
  Shard part;
  if (!o.shard.empty()) {
    TS_ASSIGN(part, Shard::parse(o.shard));
  }
  std::vector<typename Op::Problem> problems;
  for (const AnyRandomCall& call : logged.calls)
    if (const auto* own = std::get_if<RandomCall<Op>>(&call))
      if (part.has(identity_of(own->problem)) && std::ranges::find(problems, own->problem) == problems.end())
        problems.push_back(own->problem);
  if (problems.empty() && o.shard.empty())
    return fail(ErrorCode::not_found, fmt::format("{} names no problem of {}", o.log, Op::kName),
                "what run prints, or a program under TILESMITH_LOG=debug");
  return BenchProblems(std::move(problems));
}

template <class Op>
Result<BenchProblems> problems_of(const TuneCliOptions& o, const std::vector<GivenOption>& given) {
  if (!o.lists_problems()) {
    TS_ASSIGN(const RandomCall<Op> call, read_call<Op>(given));
    return BenchProblems(std::vector{call.problem});
  }
  if (!given.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} beside --shapes, --from-log or --category", given.front().name),
                "one problem, or a list of them");
  if (!o.log.empty() && !(o.shapes.empty() && o.category.empty()))
    return fail(ErrorCode::invalid_argument, "--from-log beside --shapes or --category", "one list of problems");
  BenchProblems problems;
  if (o.log.empty()) {
    TS_ASSIGN(problems,
              load_problems(RowChoice::of<Op>(), o.shapes, o.category.empty() ? "smoke" : o.category, o.shard));
  } else {
    TS_ASSIGN(problems, problems_of_log<Op>(o));
  }
  auto& list = std::get<std::vector<typename Op::Problem>>(problems);
  if (o.max_problems > 0 && list.size() > static_cast<std::size_t>(o.max_problems))
    list.resize(static_cast<std::size_t>(o.max_problems));
  return problems;
}

/// Problems of a log that grows, each told once.
template <class Op>
class FollowedLog {
 public:
  explicit FollowedLog(const TuneCliOptions& options) : options_(options) {}

  /// Those that came since the last time.
  Result<std::vector<typename Op::Problem>> news() {
    std::error_code ignored;
    const std::uintmax_t size = std::filesystem::file_size(options_.log, ignored);
    std::vector<typename Op::Problem> out;
    if (std::exchange(size_, size) == size) return out;
    auto problems = problems_of_log<Op>(options_);
    if (!problems && problems.error().code == ErrorCode::not_found) return out;
    if (!problems) return std::unexpected(std::move(problems).error());
    for (auto& problem : std::get<std::vector<typename Op::Problem>>(*problems))
      if (std::ranges::find(seen_, problem) == seen_.end()) {
        seen_.push_back(problem);
        out.push_back(std::move(problem));
      }
    return out;
  }

 private:
  const TuneCliOptions& options_;
  std::uintmax_t size_ = 0;
  std::vector<typename Op::Problem> seen_;
};

/// Tunes what the log meets, for as long as the program runs. The serving program is another process; it reads the
/// choices when it makes its next dispatcher.
template <class Op, class TuneSome>
Status follow(const TuneCliOptions& o, const TuneSome& tune_some, const std::function<Status()>& publish) {
  if (o.log.empty() || o.as_json)
    return fail(ErrorCode::invalid_argument, o.as_json ? "--follow beside --json" : "--follow without --from-log",
                "--from-log FILE --follow SECONDS --publish FILE");
  constexpr int kLowPriority = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kLowPriority));
  for (FollowedLog<Op> log(o);;) {
    TS_ASSIGN(auto problems, log.news());
    if (!problems.empty()) {
      TS_ASSIGN(const TuneSummary some, tune_some(BenchProblems(std::move(problems))));
      if (some.raced + some.known > 0) TS_TRY(publish());
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(o.follow_s));
  }
}

/// The words that tune a part as these options tune the whole. Paths are absolute: a job starts in another folder.
std::vector<std::string> words_of(const TuneCliOptions& o, std::string_view operation) {
  const auto absolute = [](const std::string& path) { return std::filesystem::absolute(path).string(); };
  std::vector<std::string> words{this_program(), "tune", std::string(operation), "--resume"};
  const TuneCliOptions usual;
  const auto add = [&](const char* name, const auto& value, const auto& standard) {
    if (value != standard) words.insert(words.end(), {name, fmt::format("{}", value)});
  };
  if (!o.shapes.empty()) add("--shapes", absolute(o.shapes), "");
  if (!o.log.empty()) add("--from-log", absolute(o.log), "");
  add("--category", o.category, usual.category);
  add("--max-problems", o.max_problems, usual.max_problems);
  add("--device", o.device, usual.device);
  add("--threads", o.threads, usual.threads);
  add("--workers", o.workers, usual.workers);
  add("--candidates", o.candidates, usual.candidates);
  add("--budget", o.budget_s, usual.budget_s);
  add("--limit", o.limit_s, usual.limit_s);
  add("--determinism", o.determinism, usual.determinism);
  add("--policy", o.policy, usual.policy);
  add("--race-seed", o.seed, usual.seed);
  return words;
}

Status tune_by_slurm(const TuneCliOptions& o, std::string_view operation, bool describes_one) {
  if (describes_one || !o.lists_problems())
    return fail(ErrorCode::invalid_argument, "--slurm for one problem", "--shapes, --from-log or --category");
  if (!o.shard.empty() || o.again || o.as_json || o.follow_s > 0 || !o.publish.empty())
    return fail(ErrorCode::invalid_argument, "--slurm beside --shard, --again, --json, --follow or --publish",
                "each task is a shard, and goes on where its database stands");
  TS_ASSIGN(const std::filesystem::path database, performance_database(o.database));
  const std::filesystem::path base = std::filesystem::absolute(database);
  TS_ASSIGN(const SlurmScripts scripts,
            write_slurm_scripts({.name = "tune",
                                 .command = words_of(o, operation),
                                 .base = base,
                                 .parts = o.slurm,
                                 .directives = o.slurm_options,
                                 .join = SlurmJob::Join{.option = "--db",
                                                        .kind = "database",
                                                        .command = {this_program(), "db", "merge"},
                                                        .options = {"--db", base.string()}}}));
  if (o.slurm_script) {
    fmt::print("{}\n{}\n", scripts.parts.string(), scripts.join.string());
    return {};
  }
  TS_ASSIGN(const SlurmIds ids, submit(scripts));
  fmt::print("job {} tunes in {} parts, job {} merges them into {}\n", ids.parts, o.slurm, ids.join, base.string());
  return {};
}

/// Errors: those of words that cannot be.
Result<TuneOptions> options_of(const TuneCliOptions& o) {
  if (!o.lists_problems() && (!o.shard.empty() || o.max_problems > 0))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} for one problem", o.shard.empty() ? "--max-problems" : "--shard"),
                "with --shapes, --from-log or --category");
  TuneOptions options;
  TS_ASSIGN(options.device, parse_device(o.device));
  TS_ASSIGN(options.determinism, parse_enum<Determinism>(o.determinism));
  TS_ASSIGN(options.policy, parse_enum<SelectionPolicy>(o.policy));
  TS_ASSIGN(options.database, performance_database(o.database));
  options.threads = o.threads;
  options.workers = o.workers;
  options.candidates = o.candidates;
  options.budget_s = o.budget_s;
  options.again = o.again;
  options.seed = o.seed;
  options.limit = std::chrono::milliseconds(static_cast<long long>(o.limit_s * 1000));
  return options;
}

/// Races lists of problems, says what comes of each problem, and keeps what all of them gave.
class Races {
 public:
  Races(TuneOptions options, bool as_json) : options_(std::move(options)), as_json_(as_json) {}

  Result<TuneSummary> run(BenchProblems problems) {
    options_.problems = std::move(problems);
    TS_ASSIGN(TuneSummary some, tune(options_, progress()));
    work_.end(some.raced);
    some.raced += summary_.raced;
    some.known += summary_.known;
    some.skipped += summary_.skipped;
    some.improved += summary_.improved;
    summary_ = some;
    return some;
  }

  [[nodiscard]] const TuneOptions& options() const { return options_; }
  [[nodiscard]] const TuneSummary& summary() const { return summary_; }
  [[nodiscard]] bool has_choices() const { return summary_.raced + summary_.known > 0; }

  [[nodiscard]] nlohmann::json document() const {
    return {{"device_class", summary_.device_class},
            {"run", summary_.run},
            {"database", options_.database.string()},
            {"raced", summary_.raced},
            {"known", summary_.known},
            {"improved", summary_.improved},
            {"outcomes", outcomes_},
            {"skipped", skipped_}};
  }
  void print_summary() const {
    fmt::print("{} problems raced, {} with a new choice; {} known already, {} skipped; in {}\n", summary_.raced,
               summary_.improved, summary_.known, summary_.skipped, options_.database.string());
  }

 private:
  TuneProgress progress() {
    return {.building = [this](std::size_t done, std::size_t total,
                               std::size_t failed) { work_.compiled(done, total, failed); },
            .problem = [this](std::size_t problem, std::size_t problems,
                              const std::string&) { work_.worked(problem, problems); },
            .outcome =
                [this](const TuneOutcome& outcome) {
                  if (as_json_)
                    outcomes_.push_back(to_json(outcome));
                  else
                    print(outcome);
                },
            .skipped =
                [this](const std::string& line, const Error& error) {
                  if (as_json_)
                    skipped_.push_back({{"problem", line}, {"reason", error.message}});
                  else
                    fmt::print(stderr, "skipped: {}: {}\n", line, error.text());
                }};
  }

  TuneOptions options_;
  bool as_json_;
  TuneSummary summary_;
  WorkProgress work_{"racing"};
  nlohmann::json outcomes_ = nlohmann::json::array(), skipped_ = nlohmann::json::array();
};

Status publish(const TuneCliOptions& o, const TuneOptions& options) {
  if (o.publish.empty()) return {};
  TS_ASSIGN(const Database database, Database::open(options.database, Database::Mode::read));
  TS_TRY(publish_choices(database, o.publish));
  return {};
}

/// Where choices change along one size, or over boxes of several.
template <class Op>
class SizeSearch {
 public:
  SizeSearch(const std::vector<RangeOption>& ranges, const std::vector<GivenOption>& given) {
    if (ranges.size() == 1)
      range_.emplace(ranges.front(), given);
    else
      boxes_.emplace(ranges, given);
  }
  Status run(Races& races, int most) {
    const auto race = [&](BenchProblems problems) { return races.run(std::move(problems)); };
    return range_ ? range_->run(races.options(), most, race) : boxes_->run(races.options(), most, race);
  }
  void add_to(nlohmann::json& document) const {
    if (range_)
      document["intervals"] = range_->to_json();
    else
      document["boxes"] = boxes_->to_json();
  }
  void print() const { range_ ? range_->print() : boxes_->print(); }

 private:
  std::optional<RangeTuning<Op>> range_;
  std::optional<BoxTuning<Op>> boxes_;
};

template <class Op>
Status tune_operation(const TuneCliOptions& o, const std::vector<GivenOption>& given) {
  if (o.slurm > 0) return tune_by_slurm(o, Op::kName, !given.empty());
  TS_ASSIGN(TuneOptions options, options_of(o));
  std::vector<RangeOption> ranges;
  if (!o.lists_problems()) {
    TS_ASSIGN(ranges, ranges_in(given));
  }
  BenchProblems problems;
  if (ranges.empty() && o.follow_s == 0) {
    TS_ASSIGN(problems, problems_of<Op>(o, given));
  }
  Races races(std::move(options), o.as_json);
  if (o.follow_s > 0)
    return follow<Op>(
        o, [&](BenchProblems some) { return races.run(std::move(some)); }, [&] { return publish(o, races.options()); });
  std::optional<SizeSearch<Op>> sizes;
  if (ranges.empty()) {
    TS_TRY(races.run(std::move(problems)));
  } else {
    TS_TRY(sizes.emplace(ranges, given).run(races, o.max_sizes));
  }
  if (races.has_choices()) TS_TRY(publish(o, races.options()));
  if (o.as_json) {
    nlohmann::json document = races.document();
    if (sizes) sizes->add_to(document);
    fmt::print("{}", json_text(document));
  } else {
    if (sizes) sizes->print();
    races.print_summary();
  }
  // A part of few problems may have none.
  if (!races.has_choices() && (races.summary().skipped > 0 || o.shard.empty()))
    return fail(ErrorCode::unsupported, "no problem could be tuned",
                races.summary().skipped > 0 ? "the skipped ones say why"
                                            : fmt::format("problems of {}: there are none", Op::kName));
  return {};
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("tune", "Race the candidates of problems and keep what was measured");
  verb->require_subcommand(1);
  for_each_operation([&]<class Op>(Op) {
    CLI::App* operation = verb->add_subcommand(std::string(Op::kName), std::string(Op::kAbout));
    auto problem = std::make_shared<ProblemArguments<Op>>();
    auto options = std::make_shared<TuneCliOptions>();
    problem->add_to(*operation);
    options->add_to(*operation);
    operation->callback(
        [problem, options, &exit_code] { exit_code = exit_code_of(tune_operation<Op>(*options, problem->given())); });
  });
}

}  // namespace tilesmith::cli
