// What `tilesmith bench` and `tilesmith sweep` have in common: their options, their problems, and the measuring.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "cli/bench_oracle.hpp"
#include "cli/bench_words.hpp"
#include "sweep/axes.hpp"
#include "sweep/bench_config.hpp"
#include "sweep/engine.hpp"
#include "sweep/operation.hpp"

namespace tilesmith::cli {

struct BenchCliOptions {
  std::string operation;  ///< empty: that of the problems on the command line, else attention
  ProblemWords problems;
  std::string config;
  std::string shapes;
  std::string category = "smoke";
  std::string shard;
  std::string peers;
  std::string csv, json;
  std::string device = "cpu";
  bool verify = false, naive = false, compile_only = false, resume = false, dry_run = false, processor_time = false;
  int workers = 0, threads = 0, max_kernels = 0, max_problems = 0;
  std::optional<double> limit_s;
  double min_time_s = 0, target_spread = BenchOptions{}.noisy_above;
  int retakes = BenchOptions{}.retakes;
  std::optional<std::string> seed;  ///< of random problems with --oracle; else an option of problems
  OracleCliOptions oracle;

  void add_to(CLI::App& verb);
};

/// The problems that the command line describes, or those of a shapes file.
[[nodiscard]] Result<BenchProblems> problems_of(const BenchCliOptions& options);
/// The problems that the sweep's allow-lists leave, at most `most` of them (0: all).
[[nodiscard]] BenchProblems allowed(BenchProblems problems, const BenchConfig& config, int most);
/// Builds, verifies and times, and prints a table.
[[nodiscard]] Status bench(const BenchCliOptions& options);

}  // namespace tilesmith::cli
