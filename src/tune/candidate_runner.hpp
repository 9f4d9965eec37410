// Candidates of one problem in a worker: planned, verified and timed, each when that is first asked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "choose/candidate.hpp"
#include "dispatch/backend.hpp"
#include "measure/measure.hpp"
#include "runtime/poison.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/trial.hpp"

namespace tilesmith {

/// Enough timing for a first look (round 0) or for a later turn: a few samples, whose median is not moved by one that
/// something disturbed; of calls that take longer than the budget one. What takes more than `give_up_above` seconds a
/// call is given up; 0: nothing is.
[[nodiscard]] inline MeasureOptions window_of(int round, double give_up_above) {
  MeasureOptions options;
  options.min_samples = 1;
  options.max_samples = round == 0 ? 3 : 5;
  options.budget = std::chrono::duration<double>(round == 0 ? 0.005 : 0.02);
  options.target_spread = 0;  // the spread of one sample is none
  options.give_up_above = give_up_above;
  return options;
}

/// A device as the worker sees it: opened when it is first used, so that the process which forks workers leaves the
/// driver alone.
class WorkerDevice {
 public:
  WorkerDevice(Device device, int threads) : device_(device), threads_(threads) {}

  [[nodiscard]] Result<Backend*> open() {
    if (backend_ == nullptr) {
      TS_ASSIGN(backend_, open_backend(device_, threads_));
    }
    return backend_.get();
  }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] int threads() const { return threads_; }

 private:
  Device device_;
  int threads_ = 0;
  std::unique_ptr<Backend> backend_;
};

/// One copy of the inputs for all candidates. The device, the case and the candidates must outlive the runner.
template <class Op>
class CandidateRunner {
 public:
  CandidateRunner(WorkerDevice& device, Case<Op>& problem_case, const std::vector<Candidate>& candidates)
      : device_(device), case_(problem_case), candidates_(candidates), plans_(candidates.size()) {}

  /// Error: wrong_result, with what is wrong; those of planning and running.
  [[nodiscard]] Status verify(std::size_t candidate, const Reference& reference,
                              InputCheck inputs = InputCheck::compared) {
    TS_ASSIGN(const PlanFor<Op>* plan, plan_of(candidate));
    TS_ASSIGN(const Verdict verdict, trial_->verify(*plan, reference, inputs));
    if (verdict.outcome == Outcome::fail)
      return fail(ErrorCode::wrong_result, "its result is wrong: " + verdict.reason);
    return {};
  }

  /// The median of the samples. Errors: those of planning and running.
  [[nodiscard]] Result<double> time(std::size_t candidate, const MeasureOptions& options) {
    TS_ASSIGN(const PlanFor<Op>* plan, plan_of(candidate));
    TS_ASSIGN(const TrialTiming timing, trial_->time(*plan, options));
    return timing.median_s;
  }

 private:
  Result<const PlanFor<Op>*> plan_of(std::size_t candidate) {
    TS_TRY(open());
    std::unique_ptr<PlanFor<Op>>& plan = plans_[candidate];
    if (plan == nullptr) {
      poisons_scratch = true;
      TS_ASSIGN(Backend* const backend, device_.open());
      TS_ASSIGN(OperationBackend<Op>* const kernels, backend->template find<Op>());
      TS_ASSIGN(plan, kernels->plan(case_.problem(), candidates_[candidate], "a measurement", BuildPolicy::allowed));
    }
    return plan.get();
  }

  Status open() {
    if (trial_) return {};
    Dispatcher preparing({.device = device_.device(), .threads = device_.threads()});
    TS_TRY(case_.prepare(preparing));
    TS_ASSIGN(Trial<Op> trial, make_trial(case_, device_.device()));
    trial_.emplace(std::move(trial));
    return {};
  }

  WorkerDevice& device_;
  Case<Op>& case_;
  const std::vector<Candidate>& candidates_;
  std::optional<Trial<Op>> trial_;
  std::vector<std::unique_ptr<PlanFor<Op>>> plans_;
};

}  // namespace tilesmith
