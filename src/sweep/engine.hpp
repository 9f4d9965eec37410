// The engine of a sweep: builds every candidate of every problem in parallel, then verifies and times each in a worker
// that may crash or hang without harm. It knows operations by their rows alone (sweep/operation.hpp).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "measure/measure.hpp"
#include "measure/peaks.hpp"
#include "sweep/bench_config.hpp"
#include "sweep/operation.hpp"
#include "sweep/row.hpp"
#include "tilesmith/device.hpp"

namespace tilesmith {

struct BenchOptions {
  BenchConfig config;
  Device device{};
  BenchProblems problems;
  bool verify = false;
  bool naive = false;  ///< time the naive computation of each problem too
  bool compile_only = false;
  int workers = 0;      ///< compilers at a time; 0: TILESMITH_WORKERS, else as many as processors and memory allow
  int threads = 0;      ///< a kernel's threads; 0: every processor
  int max_kernels = 0;  ///< candidates tried on a problem, the best by prediction first; 0: all
  std::chrono::milliseconds limit{
      60'000};  ///< for the verification and timing of one candidate; then its worker is killed
  MeasureOptions measure{};
  std::string csv;               ///< rows are appended here as they come; empty: nowhere
  std::string about;             ///< what `csv` says of this run before its rows (about_lines in sweep/provenance.hpp)
  double noisy_above = 0.05;     ///< a time whose spread is larger is taken again, and at last flagged
  int retakes = 1;               ///< how often a noisy time is taken again; the least noisy one counts
  std::function<bool()> stop{};  ///< once true, no more is measured; rows that are there stay
  bool resume = false;           ///< keep the rows of `csv` and skip what they hold
};

/// Calls that tell a user how the sweep goes on.
struct BenchProgress {
  std::function<void(std::size_t done, std::size_t total, std::size_t failed)> building{};
  std::function<void(std::size_t problem, std::size_t problems, const BenchProblem&)> problem{};
  std::function<void(const BenchRow&)> row{};
  std::function<void(const BenchProblem&, const Error&)>
      skipped{};  ///< no kernel computes the problem, or its data cannot be made
};

struct BenchSummary {
  std::size_t rows = 0;
  std::size_t resumed = 0;  ///< found in the CSV and not run again
  std::size_t wrong = 0;
  std::size_t failed = 0;  ///< compile, runtime, timeout
  std::size_t skipped_problems = 0;
  std::size_t problems_without_result = 0;  ///< every candidate that was tried is wrong or failed
  std::size_t noisy = 0;                    ///< rows whose spread stayed above the limit
  bool stopped = false;                     ///< before all was measured
  std::optional<Peaks> peaks{};
};

/// Error: unsupported, when the device has no kernels of the problems' operation.
[[nodiscard]] Result<BenchSummary> run_bench(const BenchOptions& options, const BenchProgress& progress);

}  // namespace tilesmith
