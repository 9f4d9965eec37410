// One kernel on one case and device: is it right, and how long does it take? What `run`, `bench` and `tune` all ask.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "measure/measure.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/attention/case.hpp"
#include "verify/attention/reference.hpp"
#include "verify/guarded_buffer.hpp"

namespace tilesmith {

struct TrialTiming {
  double median_s = 0;
  double best_s = 0;
  double spread = 0;  ///< interquartile range over median
  int samples = 0;
  double flops = 0;  ///< of the problem, useful ones only
  double bytes = 0;  ///< each input and output once

  [[nodiscard]] double gflops() const { return flops / median_s * 1e-9; }
  [[nodiscard]] double gbps() const { return bytes / median_s * 1e-9; }
};

/// A case on a device. The case must outlive the trial.
class Trial {
 public:
  Trial() = default;
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  virtual ~Trial() = default;

  /// Runs once and brings the results back.
  [[nodiscard]] virtual Status run(const AttentionPlan& plan, AttentionOutputs& outputs) = 0;
  /// Runs once on poisoned outputs between red zones and judges the result.
  [[nodiscard]] virtual Result<Verdict> verify(const AttentionPlan& plan, const AttentionReference& reference) = 0;
  [[nodiscard]] virtual Result<TrialTiming> time(const AttentionPlan& plan, const MeasureOptions& options) = 0;
};

[[nodiscard]] Result<std::unique_ptr<Trial>> make_trial(const AttentionCase& problem_case, Device device);

/// What every device's verification shares: makes the guarded outputs, lets `run` fill them, judges.
[[nodiscard]] Result<Verdict> verify_guarded(const AttentionCase& problem_case, const AttentionReference& reference,
                                             FunctionRef<Status(GuardedBuffer& o, GuardedBuffer& lse)> run);

[[nodiscard]] TrialTiming trial_timing(const Timing& timing, double flops, double bytes);

[[nodiscard]] nlohmann::json to_json(const TrialTiming& timing);
[[nodiscard]] nlohmann::json to_json(const Verdict& verdict);

}  // namespace tilesmith
