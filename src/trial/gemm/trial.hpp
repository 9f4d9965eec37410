// One GEMM kernel on one case and device: is it right, and how long does it take?
#pragma once

#include <memory>

#include "base/error.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/attention/trial.hpp"
#include "trial/gemm/case.hpp"
#include "verify/gemm/reference.hpp"

namespace tilesmith {

/// A case on a device. The case must outlive the trial.
class GemmTrial {
 public:
  GemmTrial() = default;
  GemmTrial(const GemmTrial&) = delete;
  GemmTrial& operator=(const GemmTrial&) = delete;
  virtual ~GemmTrial() = default;

  /// Runs once and brings the results back.
  [[nodiscard]] virtual Status run(const GemmPlan& plan, GemmOutputs& outputs) = 0;
  /// Runs once on a poisoned output between red zones, with gaps between its rows, and judges the result.
  [[nodiscard]] virtual Result<Verdict> verify(const GemmPlan& plan, const GemmReference& reference) = 0;
  [[nodiscard]] virtual Result<TrialTiming> time(const GemmPlan& plan, const MeasureOptions& options) = 0;
};

/// Errors: not_found (no driver), invalid_argument (no such device), out_of_memory.
[[nodiscard]] Result<std::unique_ptr<GemmTrial>> make_trial(const GemmCase& problem_case, Device device);

/// What every device's verification shares: makes a guarded D with gaps between its rows, which begin at multiples of
/// `row_step` elements, lets `run` fill it and amax, judges. `arguments` are the case's with D on the host.
[[nodiscard]] Result<Verdict> verify_guarded(
    const GemmCase& problem_case, const GemmReference& reference, std::int64_t row_step,
    FunctionRef<Status(const GemmArguments& arguments, GuardedBuffer& d, float& amax)> run);

}  // namespace tilesmith
