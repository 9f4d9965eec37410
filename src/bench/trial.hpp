// One kernel on one case: is it right, and how long does it take? What `run`, `bench` and `tune` all ask.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "bench/attention_case.hpp"
#include "tune/measure.hpp"
#include "verify/attention_check.hpp"

namespace tilesmith {

/// Computes the case's problem with these arguments.
using AttentionCall = FunctionRef<Status(const AttentionArguments&)>;

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

/// Runs the call once on poisoned outputs between red zones and judges the result.
[[nodiscard]] Result<Verdict> verify_call(const AttentionCase& problem_case, const AttentionExpectation& expectation,
                                          AttentionCall call);

[[nodiscard]] Result<TrialTiming> time_call(const AttentionCase& problem_case, AttentionCall call,
                                            const MeasureOptions& options);

[[nodiscard]] nlohmann::json to_json(const TrialTiming& timing);
[[nodiscard]] nlohmann::json to_json(const Verdict& verdict);

}  // namespace tilesmith
