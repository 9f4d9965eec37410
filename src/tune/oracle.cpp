#include "tune/oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "base/json.hpp"
#include "choose/determinism.hpp"
#include "choose/inductor.hpp"
#include "measure/isolate.hpp"
#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "problem/conv/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/line.hpp"
#include "sweep/build_list.hpp"
#include "sweep/lines.hpp"
#include "sweep/planning_backend.hpp"
#include "tune/candidate_runner.hpp"
#include "tune/interleaving.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string pack(const TurnResult& result) {
  return json({{"seconds", result.seconds}, {"failure", result.failure}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

TurnResult unpack_turn(const std::string& payload) {
  const json in = json::parse(payload);
  return {.seconds = in["seconds"], .failure = in["failure"]};
}

/// A problem, the candidates of it that are measured, and how far that is.
template <class Op>
struct OracleContest {
  typename Op::Problem problem;
  std::string line;
  std::string family;
  std::vector<Candidate> candidates;
  std::vector<std::size_t> ranks;     ///< of the candidates, in dispatch's order
  std::vector<bool> of_inductor;      ///< whether Inductor's table would time the candidate
  std::vector<std::string> failures;  ///< of candidates that could not be built; empty: built
  bool is_verified = true;
  Interleaving turns;
};

/// Takes turns in a worker, problem after problem: the device stays open and kernels stay loaded between them.
template <class Op>
class OracleWorker {
 public:
  OracleWorker(const OracleOptions& options, const std::vector<OracleContest<Op>>& contests)
      : options_(options), contests_(contests), device_(options.device, options.threads) {}

  TurnResult take(std::size_t contest, const InterleavedTurn& turn) {
    const std::string& failure = contests_[contest].failures[turn.candidate];
    if (!failure.empty()) return {.seconds = 0, .failure = failure};
    const auto timed = time(contest, turn);
    return timed ? TurnResult{.seconds = *timed} : TurnResult{.seconds = 0, .failure = timed.error().text()};
  }

 private:
  Result<double> time(std::size_t contest, const InterleavedTurn& turn) {
    TS_TRY(open(contest));
    if (turn.is_verified && reference_ != nullptr) TS_TRY(runner_->verify(turn.candidate, *reference_, inputs_));
    MeasureOptions window = window_of(turn.round, turn.give_up_above);
    window.processor_time = options_.processor_time;
    return runner_->time(turn.candidate, window);
  }

  /// Makes the problem's data, unless they are there.
  Status open(std::size_t contest) {
    if (runner_ && open_ == contest) return {};
    runner_.reset();
    reference_.reset();
    case_.reset();
    const OracleContest<Op>& next = contests_[contest];
    TS_ASSIGN(Case<Op> made, Case<Op>::create(usual_call(next.problem, kSweepSeed)));
    case_.emplace(std::move(made));
    // Before any kernel runs: one that writes to its inputs spoils no reference.
    if (next.is_verified) {
      TS_ASSIGN(reference_, case_->reference());
    }
    // Reading large inputs back after each candidate would take longer than all else.
    constexpr double kMostRead = 1e8;
    inputs_ = bytes_of(next.problem) <= kMostRead ? InputCheck::compared : InputCheck::trusted;
    runner_.emplace(device_, *case_, next.candidates);
    open_ = contest;
    return {};
  }

  const OracleOptions& options_;
  const std::vector<OracleContest<Op>>& contests_;
  WorkerDevice device_;
  std::optional<Case<Op>> case_;
  std::unique_ptr<const Reference> reference_;
  std::optional<CandidateRunner<Op>> runner_;
  InputCheck inputs_ = InputCheck::compared;
  std::size_t open_ = 0;
};

template <class Op>
class Oracle {
 public:
  using Problem = typename Op::Problem;

  Oracle(const OracleOptions& options, const OracleProgress& progress, PlanningBackend& planning,
         const OperationBackend<Op>& kernels)
      : options_(options), progress_(progress), planning_(planning), kernels_(kernels) {}

  Result<OracleResult> run(const std::vector<Problem>& problems) {
    if (!options_.csv.empty()) {
      TS_ASSIGN(file_, OracleFile::open(options_.csv, options_.resume, options_.about));
      result_.rows = file_->rows();
    }
    std::set<std::string, std::less<>> known;
    for (const OracleRow& row : result_.rows) known.insert(row.problem);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const Problem measured = validate(problems[i]) ? BenchOperation<Op>::measured(problems[i]) : problems[i];
      if (!known.insert(to_line(measured, kSweepSeed)).second) {
        ++result_.resumed;
        continue;
      }
      add(problems[i], options_.families.empty() ? "given" : options_.families[i]);
    }
    if (contests_.empty()) return std::move(result_);
    TS_TRY(build());
    TS_TRY(measure());
    return std::move(result_);
  }

 private:
  void skip(const std::string& line, const Error& error) {
    ++result_.skipped;
    if (progress_.skipped) progress_.skipped(line, error);
  }

  void add(const Problem& listed, const std::string& family) {
    const std::string line = to_line(listed, kSweepSeed);
    if (const Status valid = validate(listed); !valid) return skip(line, valid.error());
    OracleContest<Op> contest{.problem = BenchOperation<Op>::measured(listed),
                              .line = {},
                              .family = family,
                              .candidates = {},
                              .ranks = {},
                              .of_inductor = {},
                              .failures = {},
                              .is_verified = true,
                              .turns = {}};
    contest.line = to_line(contest.problem, kSweepSeed);
    contest.is_verified = flops_of(contest.problem) <= options_.verified_flops;
    auto ranking = kernels_.rank(contest.problem);
    if (!ranking) return skip(line, ranking.error());
    std::vector<Candidate>& all = ranking->candidates;
    if (const Status ordered = order_for(options_.determinism, all); !ordered) return skip(line, ordered.error());
    std::vector<bool> of_inductor(all.size());
    for (const std::size_t rank : selected(SelectionPolicy::inductor, contest.problem, all)) of_inductor[rank] = true;
    contest.ranks = sample(all, of_inductor);
    for (const std::size_t rank : contest.ranks) {
      contest.candidates.push_back(std::move(all[rank]));
      contest.of_inductor.push_back(of_inductor[rank]);
    }
    contest.failures.resize(contest.candidates.size());
    contest.turns = Interleaving(contest.candidates.size(), {.rounds = options_.rounds,
                                                             .cut = options_.cut,
                                                             .seed = options_.seed + contests_.size(),
                                                             .watched = watched(contest)});
    contests_.push_back(std::move(contest));
  }

  /// Ranks of the candidates that are measured, rising: dispatch's first, the model's first, those of Inductor's table,
  /// and a sample of the rest.
  [[nodiscard]] std::vector<std::size_t> sample(const std::vector<Candidate>& all,
                                                const std::vector<bool>& of_inductor) const {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto most = static_cast<std::size_t>(options_.candidates);
    if (most == 0 || all.size() <= most) return order;
    const std::size_t predicted =
        static_cast<std::size_t>(std::ranges::min_element(all, {}, &Candidate::predicted_seconds) - all.begin());
    std::vector<std::uint64_t> hash(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_kept = i < static_cast<std::size_t>(options_.kept) || i == predicted || of_inductor[i];
      hash[i] = is_kept ? 0 : key128(fmt::format("{} {}", options_.seed, key_of(all[i].recipe).hex())).lo;
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return hash[i]; });
    order.resize(most);
    std::ranges::sort(order);
    return order;
  }

  /// Groups whose best a policy may choose: it is timed in both halves, however slow it is.
  [[nodiscard]] static std::vector<std::vector<std::size_t>> watched(const OracleContest<Op>& contest) {
    std::vector<std::vector<std::size_t>> groups;
    for (const std::size_t first : {1u, 2u, 4u, 8u}) {
      std::vector<std::size_t>& group = groups.emplace_back();
      for (std::size_t i = 0; i < contest.ranks.size(); ++i)
        if (contest.ranks[i] < first) group.push_back(i);
    }
    std::vector<std::size_t>& inductor = groups.emplace_back();
    for (std::size_t i = 0; i < contest.of_inductor.size(); ++i)
      if (contest.of_inductor[i]) inductor.push_back(i);
    groups.push_back({static_cast<std::size_t>(
        std::ranges::min_element(contest.candidates, {}, &Candidate::predicted_seconds) - contest.candidates.begin())});
    return groups;
  }

  Status build() {
    BuildList list;
    for (const OracleContest<Op>& contest : contests_)
      for (const Candidate& candidate : contest.candidates) list.add(candidate.recipe);
    TS_TRY(list.built(planning_.backend->build(list.configs(), options_.workers, progress_.building)));
    for (OracleContest<Op>& contest : contests_)
      for (std::size_t i = 0; i < contest.candidates.size(); ++i)
        if (const Status status = list.of(contest.candidates[i].recipe); !status)
          contest.failures[i] = status.error().text();
    return {};
  }

  /// All turns of all problems. A worker that dies is followed by one that begins with this process's state.
  Status measure() {
    const auto begin = Clock::now();
    std::size_t at = 0;  // the contest whose turn it is
    std::size_t turns = 0;
    for (const OracleContest<Op>& contest : contests_) turns += contest.turns.most_turns();
    OracleWorker<Op> worker(options_, contests_);
    Status written;
    const auto record = [&](const TurnResult& result) {
      contests_[at].turns.record(result);
      return contests_[at].turns.next().has_value();
    };
    if (progress_.problem) progress_.problem(0, contests_.size(), contests_[0].line);
    TS_TRY(run_isolated(
        turns, options_.limit,
        [&](std::size_t) {
          const auto turn = at < contests_.size() ? contests_[at].turns.next() : std::nullopt;
          if (!turn) return std::string();
          const TurnResult result = worker.take(at, *turn);
          if (!record(result)) ++at;
          return pack(result);
        },
        [&](const IsolatedResult& result) {
          if (record(result.status == IsolatedStatus::done ? unpack_turn(result.payload)
                                                           : TurnResult{.seconds = 0, .failure = result.payload}))
            return true;
          written = finish(contests_[at]);
          ++at;
          const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
          if (!written || at == contests_.size() || (options_.budget_s > 0 && spent > options_.budget_s)) return false;
          if (progress_.problem) progress_.problem(at, contests_.size(), contests_[at].line);
          return true;
        },
        options_.stop));
    TS_TRY(written);
    result_.left_out = contests_.size() - at;
    return {};
  }

  Status finish(const OracleContest<Op>& contest) {
    std::vector<OracleRow> rows;
    for (std::size_t i = 0; i < contest.candidates.size(); ++i) {
      const std::string& failure = contest.turns.failure(i);
      const bool is_failed = !failure.empty(), is_behind = contest.turns.turns(i).empty();
      rows.push_back({.problem = contest.line,
                      .family = contest.family,
                      .device_class = planning_.backend->device_class(),
                      .candidates = contest.candidates.size(),
                      .recipe = key_of(contest.candidates[i].recipe),
                      .name = recipe_name(contest.candidates[i].recipe),
                      .rank = contest.ranks[i],
                      .predicted_s = contest.candidates[i].predicted_seconds,
                      .status = is_failed             ? OracleStatus::failed
                                : is_behind           ? OracleStatus::behind
                                : contest.is_verified ? OracleStatus::verified
                                                      : OracleStatus::unverified,
                      .look_s = contest.turns.look(i),
                      .turns_s = is_failed ? std::vector<double>{} : contest.turns.turns(i),
                      .message = failure,
                      .sets = contest.of_inductor[i] ? "inductor" : ""});
    }
    if (file_) TS_TRY(file_->append(rows));
    result_.rows.insert(result_.rows.end(), rows.begin(), rows.end());
    ++result_.measured;
    return {};
  }

  const OracleOptions& options_;
  const OracleProgress& progress_;
  PlanningBackend& planning_;
  const OperationBackend<Op>& kernels_;
  std::optional<OracleFile> file_;
  std::vector<OracleContest<Op>> contests_;
  OracleResult result_;
};

}  // namespace

Result<OracleResult> measure_all(const OracleOptions& options, const OracleProgress& progress) {
  TS_ASSIGN(PlanningBackend planning, open_planning_backend(options.device, options.threads, options.limit));
  return std::visit(
      [&]<class Problem>(const std::vector<Problem>& problems) -> Result<OracleResult> {
        using Op = OperationOf<Problem>::type;
        TS_ASSIGN(const OperationBackend<Op>* kernels, planning.backend->find<Op>());
        return Oracle<Op>(options, progress, planning, *kernels).run(problems);
      },
      options.problems);
}

}  // namespace tilesmith
