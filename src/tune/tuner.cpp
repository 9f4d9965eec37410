#include "tune/tuner.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/end_of_work.hpp"
#include "base/json.hpp"
#include "choose/determinism.hpp"
#include "dispatch/choice.hpp"
#include "measure/isolate.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/line.hpp"
#include "sweep/build_list.hpp"
#include "sweep/lines.hpp"
#include "sweep/planning_backend.hpp"
#include "trial/trial.hpp"
#include "tune/candidate_runner.hpp"
#include "tune/choices.hpp"
#include "tune/race.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

std::string pack(const RaceResult& result) {
  return json({{"seconds", result.seconds}, {"spent", result.spent_s}, {"failure", result.failure}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

RaceResult unpack(const std::string& payload) {
  const json in = json::parse(payload);
  return {.seconds = in["seconds"], .spent_s = in["spent"], .failure = in["failure"]};
}

/// The reference of a problem's race. A GPU's is made in the worker, beside the first looks, which need no processor;
/// kernels on the CPU would share it, and the memory of the inputs. One that takes long is made before as well, since
/// the limit of a step's time is not for it.
template <class Op>
class RaceReference {
 public:
  RaceReference(const Case<Op>& problem_case, DeviceKind device) : case_(problem_case), device_(device) {}

  /// In the process that forks workers. Errors: those of Case::reference.
  [[nodiscard]] Status before_the_race() {
    constexpr double kFewFlops = kSamples ? 1e12 : 1e11;  // at most half a minute of one slow processor
    if (is_gpu(device_) && case_.flops() <= kFewFlops) return {};
    TS_ASSIGN(made_, reference_of(0));
    return {};
  }
  /// In the worker.
  void begin() {
    if (made_ != nullptr || making_.valid()) return;
    // One processor is left to the thread that launches.
    const unsigned threads = std::max(2u, std::thread::hardware_concurrency()) - 1;
    const auto make = [this, threads] { return reference_of(threads); };
    making_ = std::async(std::launch::async | std::launch::deferred, make).share();  // at once, if there is a thread
  }
  /// Waits for it. The same error each time, where it could not be made.
  [[nodiscard]] Result<const Reference*> get() const {
    if (made_ != nullptr) return made_.get();
    const Result<std::unique_ptr<const Reference>>& made = making_.get();
    if (!made) return std::unexpected(made.error());
    return made->get();
  }

 private:
  static constexpr bool kSamples = requires(const Case<Op>& of) { of.sampled_reference(0); };

  [[nodiscard]] Result<std::unique_ptr<const Reference>> reference_of(unsigned threads) const {
    if constexpr (kSamples)
      return case_.sampled_reference(threads);
    else
      return case_.reference(threads);
  }

  const Case<Op>& case_;
  DeviceKind device_;
  std::unique_ptr<const Reference> made_;
  std::shared_future<Result<std::unique_ptr<const Reference>>> making_;
};

/// Runs the steps of a race in a worker.
template <class Op>
class Runner {
 public:
  Runner(const TuneOptions& options, Case<Op>& problem_case, RaceReference<Op>& reference,
         const std::vector<Candidate>& candidates)
      : device_(options.device, options.threads), reference_(reference), runner_(device_, problem_case, candidates) {}

  RaceResult run(const RaceStep& step) {
    reference_.begin();
    if (step.verifies) {
      const Status status = verify(step.candidate);
      return {.failure = status ? std::string() : status.error().text()};
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto timed = runner_.time(step.candidate, window_of(step.round, step.give_up_above));
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!timed) return {.seconds = 0, .spent_s = spent, .failure = timed.error().text()};
    return {.seconds = *timed, .spent_s = spent};
  }

 private:
  Status verify(std::size_t candidate) {
    TS_ASSIGN(const Reference* const reference, reference_.get());
    return runner_.verify(candidate, *reference);
  }

  WorkerDevice device_;
  RaceReference<Op>& reference_;
  CandidateRunner<Op> runner_;
};

/// A problem with the candidates that race; the incumbent is one of them.
template <class Op>
struct Contest {
  typename Op::Problem problem;
  std::vector<Candidate> candidates;
  std::vector<std::string> failures;  ///< of candidates that could not be built; empty: built
  std::size_t incumbent = 0;
};

template <class Op>
class Tuner {
 public:
  using Problem = typename Op::Problem;

  Tuner(const TuneOptions& options, const TuneProgress& progress, PlanningBackend& planning, Database& database,
        const OperationBackend<Op>& kernels)
      : options_(options), progress_(progress), planning_(planning), database_(database), kernels_(kernels) {}

  Result<TuneSummary> run(const std::vector<Problem>& problems) {
    summary_.device_class = planning_.backend->device_class();
    TS_TRY(begin_run());
    TS_ASSIGN(const std::vector<StoredRace> races, database_.races(summary_.device_class));
    for (const StoredRace& stored : races) known_.insert(stored.race.problem);
    for (const TunedChoice& choice : choices_of(races).choices) chosen_.emplace(choice.problem, choice.recipe);

    std::vector<Contest<Op>> contests;
    for (const Problem& listed : problems) add_contest(listed, contests);
    TS_TRY(build(contests));
    for (std::size_t i = 0; i < contests.size(); ++i) {
      if (progress_.problem) progress_.problem(i, contests.size(), line_of(contests[i].problem));
      TS_TRY(race(contests[i]));
    }
    return summary_;
  }

 private:
  static std::string line_of(const Problem& problem) { return to_line(problem, kSweepSeed); }

  Status begin_run() {
    std::random_device random;
    run_ = {.uuid = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random()),
            .device_class = summary_.device_class,
            .device = planning_.device_name,
            .started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
            .program = TILESMITH_VERSION,
            .compiler = planning_.backend->compiler(),
            .driver = planning_.driver};
    summary_.run = run_.uuid;
    return {};
  }

  void skip(const Problem& problem, const Error& error) {
    ++summary_.skipped;
    if (progress_.skipped) progress_.skipped(line_of(problem), error);
  }

  void add_contest(const Problem& listed, std::vector<Contest<Op>>& contests) {
    if (const Status valid = validate(listed); !valid) return skip(listed, valid.error());
    Contest<Op> contest{.problem = measured_as(BenchOperation<Op>::measured(listed)), .candidates = {}, .failures = {}};
    const std::string identity = identity_of(contest.problem);
    if (!options_.again && known_.contains(identity)) {
      ++summary_.known;
      return;
    }
    auto ranking = kernels_.rank(contest.problem);
    if (!ranking) return skip(listed, ranking.error());
    contest.candidates = std::move(ranking->candidates);
    if (const Status ordered = order_for(options_.determinism, contest.candidates); !ordered)
      return skip(listed, ordered.error());
    // What the database chose before is the incumbent, wherever the policy has it.
    if (const auto chosen = chosen_.find(identity); chosen != chosen_.end())
      std::ranges::stable_partition(
          contest.candidates, [&](const Candidate& candidate) { return key_of(candidate.recipe) == chosen->second; });
    if (options_.policy != SelectionPolicy::dispatch) {
      // What is chosen today races too, so that tuning does not lose to it.
      std::vector<Candidate> kept{contest.candidates.front()};
      for (const std::size_t place : selected(options_.policy, contest.problem, contest.candidates))
        if (place > 0) kept.push_back(std::move(contest.candidates[place]));
      contest.candidates = std::move(kept);
    }
    if (options_.candidates > 0 && contest.candidates.size() > static_cast<std::size_t>(options_.candidates))
      contest.candidates.resize(static_cast<std::size_t>(options_.candidates));
    contest.failures.resize(contest.candidates.size());
    contests.push_back(std::move(contest));
  }

  Status build(std::vector<Contest<Op>>& contests) {
    BuildList list;
    for (const Contest<Op>& contest : contests)
      for (const Candidate& candidate : contest.candidates) list.add(candidate.recipe);
    TS_TRY(list.built(planning_.backend->build(list.configs(), options_.workers, progress_.building)));
    for (Contest<Op>& contest : contests)
      for (std::size_t i = 0; i < contest.candidates.size(); ++i)
        if (const Status status = list.of(contest.candidates[i].recipe); !status)
          contest.failures[i] = status.error().text();
    return {};
  }

  Status race(const Contest<Op>& contest) {
    auto problem_case = Case<Op>::create(usual_call(contest.problem, kSweepSeed));
    if (!problem_case) {
      skip(contest.problem, problem_case.error());
      return {};
    }
    RaceReference<Op> reference(*problem_case, options_.device.kind);
    TS_TRY(reference.before_the_race());
    const auto begin = std::chrono::steady_clock::now();
    Race race(contest.candidates.size(),
              {.incumbent = contest.incumbent, .budget_s = options_.budget_s, .seed = options_.seed});
    Runner<Op> runner(options_, *problem_case, reference, contest.candidates);
    // The worker has a copy of the race and of the runner, and takes the same steps as the race here, which learns
    // their results from it. A worker that dies is followed by one that begins with this process's state.
    const auto step_result = [&](const RaceStep& step) {
      const std::string& failure = contest.failures[step.candidate];
      return failure.empty() ? runner.run(step) : RaceResult{.seconds = 0, .spent_s = 0, .failure = failure};
    };
    TS_TRY(run_isolated(
        race.most_steps(), options_.limit,
        [&](std::size_t) {
          const auto step = race.next();
          if (!step) return std::string();
          const RaceResult result = step_result(*step);
          race.record(result);
          return pack(result);
        },
        [&](const IsolatedResult& result) {
          race.record(result.status == IsolatedStatus::done
                          ? unpack(result.payload)
                          : RaceResult{.seconds = 0, .spent_s = 0, .failure = result.payload});
          return race.next().has_value();
        }));
    return finish(contest, race, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }

  Status finish(const Contest<Op>& contest, const Race& race, double seconds) {
    // A signal ends workers too, and what it cut short would be known as a failure ever after.
    if (work_has_ended()) return fail(ErrorCode::cancelled, "this process is about to end");
    RaceRecord record{.problem = identity_of(contest.problem),
                      .line = line_of(contest.problem),
                      .incumbent = key_of(contest.candidates[contest.incumbent].recipe),
                      .entrants = {}};
    TuneOutcome outcome{.line = record.line,
                        .before = recipe_name(contest.candidates[contest.incumbent].recipe),
                        .chosen = {},
                        .candidates = contest.candidates.size(),
                        .timings = race.timings(),
                        .seconds = seconds};
    for (std::size_t i = 0; i < contest.candidates.size(); ++i) {
      const Recipe& recipe = contest.candidates[i].recipe;
      Entrant entrant{.recipe = key_of(recipe),
                      .name = recipe_name(recipe),
                      .failure = race.failure(i),
                      .least_s = race.least_seconds(i).value_or(0)};
      // Turns of a candidate that failed between them are no comparison.
      if (entrant.failure.empty()) entrant.blocks = {race.block(i, 0), race.block(i, 1)};
      outcome.failed += entrant.failure.empty() ? 0 : 1;
      record.entrants.push_back(std::move(entrant));
    }
    const auto winner = race.winner();
    TS_TRY(database_.add(run_, record));
    ++summary_.raced;
    if (!winner) {
      skip(contest.problem, {ErrorCode::wrong_result,
                             fmt::format("every candidate failed; the first: {}", record.entrants.front().failure),
                             "tilesmith run --verify with a kernel's name shows one alone"});
      return {};
    }
    const std::vector<StoredRace> alone{{run_, record}};
    const TuningFile file = choices_of(alone);
    const TunedChoice& choice = file.choices.front();
    outcome.chosen = choice.name;
    outcome.chosen_s = choice.seconds;
    outcome.gain = choice.gain;
    outcome.before_s = race.failure(contest.incumbent).empty() ? choice.seconds * choice.gain : 0;
    summary_.improved += choice.recipe == record.incumbent ? 0 : 1;
    if (progress_.outcome) progress_.outcome(outcome);
    return {};
  }

  const TuneOptions& options_;
  const TuneProgress& progress_;
  PlanningBackend& planning_;
  Database& database_;
  const OperationBackend<Op>& kernels_;
  TuneRun run_;
  std::set<std::string, std::less<>> known_;
  std::map<std::string, Key128, std::less<>> chosen_;
  TuneSummary summary_;
};

}  // namespace

Result<TuneSummary> tune(const TuneOptions& options, const TuneProgress& progress) {
  if (options.policy == SelectionPolicy::upstream)
    return fail(ErrorCode::invalid_argument, "policy upstream, which is of Composable Kernel's instances",
                "dispatch, model, inductor or inductor_exhaustive");
  TS_TRY(std::visit(
      [&]<class Problem>(const std::vector<Problem>&) {
        return check_policy<Problem>(options.policy, OperationOf<Problem>::type::kName);
      },
      options.problems));
  TS_ASSIGN(Database database, Database::open(options.database, Database::Mode::write));
  TS_ASSIGN(PlanningBackend planning, open_planning_backend(options.device, options.threads, options.limit));
  return std::visit(
      [&]<class Problem>(const std::vector<Problem>& problems) -> Result<TuneSummary> {
        using Op = OperationOf<Problem>::type;
        TS_ASSIGN(const OperationBackend<Op>* kernels, planning.backend->find<Op>());
        return Tuner<Op>(options, progress, planning, database, *kernels).run(problems);
      },
      options.problems);
}

}  // namespace tilesmith
