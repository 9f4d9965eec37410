// tilesmith bench --oracle: measures the candidates of random or given problems, and prints the regret of policies.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "sweep/operation.hpp"

namespace tilesmith::cli {

struct OracleCliOptions {
  bool wanted = false;
  std::string judged;  ///< a file of an earlier oracle: nothing is measured
  std::string arch;    ///< with `judged`: its reference chip's figures rank the candidates anew; empty: as they were
  int sample = 64, candidates = 0, rounds = 6;
  double budget_s = 0, cut = 1.5, most_gflop = 0, verified_gflop = 50;
  std::vector<std::string> families, types;
  std::string determinism = "bitwise";

  void add_to(CLI::App& verb);
};

/// What the verb's other options say.
struct OracleSetting {
  RowChoice operation{};
  std::optional<BenchProblems> problems{};  ///< given; absent: random ones are drawn
  std::string device = "cpu", csv{}, json{};
  int threads = 0, workers = 0;
  double limit_s = 60;
  std::uint64_t seed = 1;
  bool resume = false, processor_time = false, dry_run = false;
};

[[nodiscard]] Status bench_oracle(const OracleCliOptions& options, const OracleSetting& setting);

}  // namespace tilesmith::cli
