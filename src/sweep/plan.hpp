// What a sweep on a chip takes, worked out without the chip: how many kernels are built, how many times each problem is
// measured, how long both last, and how the problems fall into shards.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "catalog/candidates.hpp"
#include "instances/sweep.hpp"
#include "sweep/operation.hpp"

namespace tilesmith {

struct SweepPlanOptions {
  DeviceFacts facts;
  std::vector<BenchProblems> shards;  ///< the problems, as --shard I/N cuts them
  /// Composable Kernel's attention: recipes of this variant alone. Others have none.
  std::optional<AttentionVariant> variant{};
  int max_kernels = 0;  ///< candidates of a problem, the model's best first; 0: all
  int workers = 1;      ///< compilers at a time, for each part
};

struct SweepPlan {
  /// Of the whole, or of one shard, whose kernels may be other shards' as well.
  struct Part {
    std::size_t problems = 0;
    std::size_t candidates = 0;  ///< rows that are measured
    std::size_t kernels = 0;     ///< built, each once
    double build_s = 0;
    double run_s = 0;  ///< of measuring at most, without verification
  };
  struct Problem {
    std::string line;  ///< `tilesmith run LINE` repeats it
    std::size_t candidates = 0;
    double run_s = 0;
    int shard = 1;
  };

  Part whole;
  std::vector<Part> shards;
  std::vector<Problem> problems;               ///< those that have candidates
  std::map<std::string, std::size_t> skipped;  ///< problems without candidates, by reason
  std::vector<KernelConfig> kernels;           ///< of the whole
};

/// Error: those of the facts. Problems that no kernel computes are counted as skipped.
[[nodiscard]] Result<SweepPlan> plan_sweep(const SweepPlanOptions& options);

/// {"problems", "candidates", "kernels", "build_s", "run_s", "shards": [{the same}], "rows": [{"line", "candidates",
/// "run_s", "shard"}], "skipped": {REASON: COUNT}}.
[[nodiscard]] nlohmann::json to_json(const SweepPlan& plan);
/// A table of the whole and its shards, and the reasons of skipped problems.
[[nodiscard]] std::string to_text(const SweepPlan& plan);

}  // namespace tilesmith
