#include "sweep/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/end_of_work.hpp"
#include "base/json.hpp"
#include "measure/isolate.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "runtime/poison.hpp"
#include "sweep/build_list.hpp"
#include "sweep/csv_journal.hpp"
#include "sweep/lines.hpp"
#include "sweep/planning_backend.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

/// A recipe to be run on a problem, and its place in the policy's order.
struct Ranked {
  Recipe recipe;
  int rank = 0;
};

/// A problem and the candidates still to be run on it.
template <class Problem>
struct Work {
  Problem problem;
  std::vector<Ranked> candidates;
  bool has_result = false;  ///< of a candidate tried now, or in the file that the bench goes on with
};

/// What a worker found out, as the bytes that cross the pipe. Doubles are kept exact; JSON has no NaN or infinity, so
/// those travel as null.
struct Report {
  RowStatus status = RowStatus::runtime;
  std::string message;
  std::optional<TrialTiming> timing;
  RowErrors errors;
};

std::string pack(const Report& report) {
  json out = {{"status", static_cast<int>(report.status)}, {"message", report.message}};
  if (report.timing) {
    const TrialTiming& t = *report.timing;
    out["timing"] = {t.median_s, t.best_s, t.spread, t.samples, t.flops, t.bytes};
  }
  if (!report.errors.outputs.empty()) {
    out["worst"] = report.errors.worst_place;
    for (const RowError& e : report.errors.outputs)
      out["errors"].push_back({e.output, e.max_abs, e.max_rel, e.rms, e.max_ratio});
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Report unpack(const std::string& bytes) {
  const json in = json::parse(bytes);
  const auto number = [](const json& value) {
    return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
  };
  Report report{
      .status = static_cast<RowStatus>(in["status"].get<int>()), .message = in["message"], .timing = {}, .errors = {}};
  if (in.contains("timing")) {
    const json& t = in["timing"];
    report.timing = TrialTiming{number(t[0]), number(t[1]), number(t[2]), t[3].get<int>(), number(t[4]), number(t[5])};
  }
  if (in.contains("errors")) {
    for (const json& e : in["errors"])
      report.errors.outputs.push_back({e[0], number(e[1]), number(e[2]), number(e[3]), number(e[4])});
    report.errors.worst_place = in["worst"];
  }
  return report;
}

/// Runs in a worker: verify, then time. The reference is null when nothing is to be verified.
template <class Op>
Report try_candidate(Case<Op>& problem_case, const Reference* reference, const Recipe& recipe,
                     const BenchOptions& options) {
  const auto failed = [](const Error& error) {
    return Report{.status = error.code == ErrorCode::compile_failed ? RowStatus::compile : RowStatus::runtime,
                  .message = error.text(),
                  .timing = {},
                  .errors = {}};
  };
  // The kernels were built before; a worker builds one again only where the store cannot keep what the parent built.
  if (reference != nullptr) poisons_scratch = true;
  Dispatcher dispatcher({.device = options.device, .threads = options.threads, .kernel = recipe_name(recipe)});
  const auto plan = dispatcher.plan(problem_case.problem());
  if (!plan) return failed(plan.error());
  if (const Status prepared = problem_case.prepare(dispatcher); !prepared) return failed(prepared.error());
  auto trial = make_trial(problem_case, options.device);
  if (!trial) return failed(trial.error());

  Report report{.status = RowStatus::unverified, .message = {}, .timing = {}, .errors = {}};
  if (reference != nullptr) {
    const auto verdict = trial->verify(**plan, *reference);
    if (!verdict) return failed(verdict.error());
    report.errors = RowErrors::of(*verdict);
    report.message = verdict->reason;
    report.status = verdict->outcome == Outcome::fail   ? RowStatus::wrong
                    : verdict->outcome == Outcome::pass ? RowStatus::correct
                                                        : RowStatus::unverified;
    if (report.status == RowStatus::wrong) return report;  // the time of a wrong result is no result
  }
  auto timing = trial->time(**plan, options.measure);
  for (int take = 0; timing && timing->spread > options.noisy_above && take < options.retakes; ++take)
    if (const auto again = trial->time(**plan, options.measure); again && again->spread < timing->spread)
      timing = *again;
  if (!timing) return failed(timing.error());
  report.timing = *timing;
  return report;
}

/// A bench of one operation.
template <class Op>
class Bench {
 public:
  using Problem = typename Op::Problem;
  using Traits = BenchOperation<Op>;
  using Kernels = OperationBackend<Op>;

  /// `known` peaks need no measuring. `threads` is 0 on a device.
  Bench(const BenchOptions& options, const BenchProgress& progress, Backend& backend, const Kernels& kernels,
        int threads, std::optional<Peaks> known)
      : options_(options),
        progress_(progress),
        backend_(backend),
        kernels_(kernels),
        threads_(threads),
        known_peaks_(known) {}

  Result<BenchSummary> run() {
    if (!options_.csv.empty()) {
      TS_ASSIGN(journal_,
                CsvJournal::open(options_.csv, OperationOf<Problem>::type::kName, options_.resume, options_.about));
    }
    std::vector<Work<Problem>> work = plan_work();
    TS_TRY(build(work));
    if (!options_.compile_only) {
      // Measured in a child as well: a peak kernel starts threads, and this process forks workers.
      summary_.peaks = known_peaks_ ? known_peaks_ : isolated_peaks();
      for (std::size_t i = 0; i < work.size(); ++i) {
        if (progress_.problem) progress_.problem(i, work.size(), work[i].problem);
        summary_.stopped = options_.stop && options_.stop();
        if (summary_.stopped) break;
        if (work[i].candidates.empty()) continue;  // none was built
        TS_TRY(run_problem(work[i]));
        summary_.stopped = options_.stop && options_.stop();
      }
    }
    for (const Work<Problem>& item : work) summary_.problems_without_result += !item.has_result;
    return summary_;
  }

 private:
  std::vector<Work<Problem>> plan_work() {
    std::vector<Work<Problem>> work;
    for (const Problem& listed : std::get<std::vector<Problem>>(options_.problems)) {
      if (!options_.config.allows(listed)) continue;
      Problem problem = listed;
      auto ranking = [&]() -> Result<Ranking> {
        TS_TRY(validate(listed));
        problem = Traits::measured(listed);
        return kernels_.rank(problem);
      }();
      if (!ranking) {
        ++summary_.skipped_problems;
        if (progress_.skipped) progress_.skipped(problem, ranking.error());
        continue;
      }
      Work<Problem> item{.problem = problem, .candidates = {}};
      std::size_t allowed = 0;
      for (std::size_t rank = 0; rank < ranking->candidates.size(); ++rank) {
        const Ranked candidate{ranking->candidates[rank].recipe, static_cast<int>(rank)};
        if (!options_.config.allows(candidate.recipe)) continue;
        if (options_.max_kernels > 0 && ++allowed > static_cast<std::size_t>(options_.max_kernels)) break;
        if (journal_ && journal_->holds(row_for(problem, candidate).identity()))
          ++summary_.resumed, item.has_result = true;
        else
          item.candidates.push_back(candidate);
      }
      if (!item.candidates.empty()) work.push_back(std::move(item));
    }
    return work;
  }

  BenchRow row_for(const Problem& problem, const Ranked& candidate) const {
    BenchRow row;
    row.problem = problem;
    row.recipe = candidate.recipe;
    row.rank = candidate.rank;
    row.threads = threads_;
    return row;
  }

  /// Compiles what the store lacks, the kernels that prepare problems too. A candidate that cannot be built, or whose
  /// problem cannot be prepared, gets its row now and is not run.
  Status build(std::vector<Work<Problem>>& work) {
    BuildList list;
    std::vector<std::optional<Recipe>> preparing;
    for (const Work<Problem>& item : work) {
      for (const Ranked& candidate : item.candidates) list.add(candidate.recipe);
      preparing.push_back(Traits::preparing(backend_, item.problem));
      if (preparing.back()) list.add(*preparing.back());
    }
    TS_TRY(list.built(backend_.build(list.configs(), options_.workers, progress_.building)));
    for (std::size_t i = 0; i < work.size(); ++i) {
      Work<Problem>& item = work[i];
      std::vector<Ranked> good;
      const Status prepared = preparing[i] ? list.of(*preparing[i]) : Status();
      for (const Ranked& candidate : item.candidates) {
        const Status own = list.of(candidate.recipe);
        const Status& status = own ? prepared : own;
        if (status && !options_.compile_only) {
          good.push_back(candidate);
          continue;
        }
        BenchRow row = row_for(item.problem, candidate);
        row.status = status ? RowStatus::compiled : RowStatus::compile;
        if (!status) row.message = status.error().text();
        TS_TRY(record(row, item));
      }
      item.candidates = std::move(good);
    }
    return {};
  }

  std::optional<Peaks> isolated_peaks() {
    std::optional<Peaks> peaks;
    const Status status = run_isolated(
        1, options_.limit,
        [&](std::size_t) {
          const auto measured = measure_peaks(threads_);
          return measured ? to_json(*measured).dump() : std::string();
        },
        [&](const IsolatedResult& result) {
          if (result.status == IsolatedStatus::done && !result.payload.empty())
            if (auto read = peaks_from_json(json::parse(result.payload))) peaks = *read;
          return true;
        });
    return status ? peaks : std::nullopt;
  }

  Status run_problem(Work<Problem>& item) {
    auto problem_case = Case<Op>::create(usual_call(item.problem, kSweepSeed));
    if (!problem_case) {
      ++summary_.skipped_problems;
      item.has_result = true;  // nothing was tried
      if (progress_.skipped) progress_.skipped(item.problem, problem_case.error());
      return {};
    }
    std::unique_ptr<const Reference> reference;
    if (options_.verify) {
      TS_ASSIGN(reference, problem_case->reference());
    }
    const double naive_s = options_.naive ? naive_seconds(*problem_case) : 0;
    Status recorded;
    TS_TRY(run_isolated(
        item.candidates.size(), options_.limit,
        [&](std::size_t i) {
          return pack(try_candidate(*problem_case, reference.get(), item.candidates[i].recipe, options_));
        },
        [&](const IsolatedResult& result) {
          BenchRow row = row_for(item.problem, item.candidates[result.item]);
          row.naive_s = naive_s;
          if (result.status == IsolatedStatus::done) {
            Report report = unpack(result.payload);
            row.status = report.status;
            row.message = std::move(report.message);
            row.timing = report.timing;
            row.errors = std::move(report.errors);
            if (row.timing && summary_.peaks)
              row.roofline_percent = 100 *
                                     summary_.peaks->least_seconds(Traits::product_type(item.problem),
                                                                   row.timing->flops, row.timing->bytes) /
                                     row.timing->median_s;
          } else {
            row.status = result.status == IsolatedStatus::timed_out ? RowStatus::timeout : RowStatus::runtime;
            row.message = result.payload;
          }
          row.noisy = row.timing && row.timing->spread > options_.noisy_above;
          recorded = record(row, item);
          return recorded.has_value();
        },
        options_.stop));
    return recorded;
  }

  /// Seconds of the naive computation on this host; 0 where there is none.
  double naive_seconds(const Case<Op>& problem_case) const {
    const auto begin = std::chrono::steady_clock::now();
    if (!problem_case.run_naive(static_cast<unsigned>(threads_))) return 0;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  Status record(const BenchRow& row, Work<Problem>& item) {
    // A signal ends workers too, and a row that it cut short would stay when the sweep is resumed.
    if (work_has_ended()) return fail(ErrorCode::cancelled, "this process is about to end");
    ++summary_.rows;
    item.has_result |=
        row.status == RowStatus::correct || row.status == RowStatus::unverified || row.status == RowStatus::compiled;
    if (row.status == RowStatus::wrong) ++summary_.wrong;
    if (row.noisy) ++summary_.noisy;
    if (row.status == RowStatus::compile || row.status == RowStatus::runtime || row.status == RowStatus::timeout)
      ++summary_.failed;
    if (progress_.row) progress_.row(row);
    return journal_ ? journal_->append(row) : Status{};
  }

  const BenchOptions& options_;
  const BenchProgress& progress_;
  Backend& backend_;
  const Kernels& kernels_;
  int threads_;
  std::optional<Peaks> known_peaks_;
  std::optional<CsvJournal> journal_;
  BenchSummary summary_;
};

Result<BenchSummary> run_on(const BenchOptions& options, const BenchProgress& progress, Backend& backend, int threads,
                            std::optional<Peaks> known) {
  return std::visit(
      [&]<class Problem>(const std::vector<Problem>&) -> Result<BenchSummary> {
        using Op = OperationOf<Problem>::type;
        TS_ASSIGN(const OperationBackend<Op>* kernels, backend.find<Op>());
        return Bench<Op>(options, progress, backend, *kernels, threads, known).run();
      },
      options.problems);
}

}  // namespace

Result<BenchSummary> run_bench(const BenchOptions& options, const BenchProgress& progress) {
  TS_ASSIGN(const PlanningBackend planning, open_planning_backend(options.device, options.threads, options.limit));
  return run_on(options, progress, *planning.backend, planning.threads, planning.peaks);
}

}  // namespace tilesmith
