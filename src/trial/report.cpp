#include "trial/report.hpp"

#include <cmath>

#include "base/json.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

/// JSON has no infinity or NaN: they become null.
json finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json to_json(const ErrorFigures& figures) {
  return {{"count", figures.count},
          {"max_abs", finite(figures.max_abs)},
          {"max_rel", finite(figures.max_rel)},
          {"rms", finite(figures.rms)},
          {"mean_abs", finite(figures.mean_abs)},
          {"norm_wise", finite(figures.norm_wise)},
          {"max_ratio_to_naive", finite(figures.max_ratio)},
          {"mean_ratio_to_naive", finite(figures.mean_ratio)}};
}

}  // namespace

TrialTiming trial_timing(const Timing& timing, double flops, double bytes) {
  return {.median_s = timing.median(),
          .best_s = timing.best(),
          .spread = timing.spread(),
          .samples = static_cast<int>(timing.samples.size()),
          .flops = flops,
          .bytes = bytes};
}

json to_json(const TrialTiming& timing) {
  return {{"median_ms", timing.median_s * 1e3}, {"best_ms", timing.best_s * 1e3}, {"spread", timing.spread},
          {"samples", timing.samples},          {"gflops", timing.gflops()},      {"gbps", timing.gbps()}};
}

json to_json(const Verdict& verdict) {
  json out = {{"outcome", to_string(verdict.outcome)},
              {"output", to_json(verdict.result_errors())},
              {"tensors", json::object()}};
  for (std::size_t i = 0; i < verdict.tensors.size(); ++i) {
    const auto& [name, figures] = verdict.tensors[i];
    out["tensors"][name] = to_json(figures);
    if (i > 0) out[name] = to_json(figures);
  }
  if (!verdict.reason.empty()) out["reason"] = verdict.reason;
  if (!verdict.tensor.empty()) out["tensor"] = verdict.tensor;
  if (verdict.check != Check::none) out["check"] = to_string(verdict.check);
  return out;
}

}  // namespace tilesmith
