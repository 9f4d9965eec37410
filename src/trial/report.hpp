// What a trial found out, and its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "measure/measure.hpp"
#include "verify/compare.hpp"

namespace tilesmith {

struct TrialTiming {
  double median_s = 0;
  double best_s = 0;
  double spread = 0;  ///< interquartile range over median
  int samples = 0;
  double flops = 0;  ///< of the problem, useful operations only
  double bytes = 0;  ///< each input and output once

  [[nodiscard]] double gflops() const { return flops / median_s * 1e-9; }
  [[nodiscard]] double gbps() const { return bytes / median_s * 1e-9; }
};

[[nodiscard]] TrialTiming trial_timing(const Timing& timing, double flops, double bytes);

[[nodiscard]] nlohmann::json to_json(const TrialTiming& timing);

/// `output` has the figures of the operation's result, each further output has its own under its name, and `tensors`
/// has those of all outputs by name.
[[nodiscard]] nlohmann::json to_json(const Verdict& verdict);

}  // namespace tilesmith
