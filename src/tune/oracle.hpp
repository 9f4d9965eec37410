// The oracle: what every candidate of a problem takes, so that choices can be judged. Candidates are timed interleaved
// and cold in a worker process, verified, in two halves that judge one another (interleaving.hpp).
//
// Of a large space a sample is measured: besides the policies' own choices, candidates in the order of a hash of their
// recipe. So problems of one signature share their kernels, and the number that must be compiled stays bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "sweep/operation.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tune/oracle_file.hpp"

namespace tilesmith {

struct OracleOptions {
  BenchProblems problems;
  std::vector<std::string> families{};  ///< one for each problem; empty: all are "given"
  Device device{};
  int threads = 0;      ///< of a call on the CPU; 0: every processor
  int workers = 0;      ///< compilers at a time; 0: TILESMITH_WORKERS, else as many as processors and memory allow
  int candidates = 0;   ///< of a problem that are measured; 0: all
  int kept = 8;         ///< of these dispatch's first
  int rounds = 6;       ///< even
  double cut = 1.5;     ///< candidates slower at the first look by this factor than the best drop out
  double budget_s = 0;  ///< of all measuring, compiling aside; the problems that are left then are left out. 0: none
  double verified_flops = 5e10;  ///< problems of more work are timed unverified: their reference would take too long
  bool processor_time = false;   ///< as in MeasureOptions
  Determinism determinism = Determinism::bitwise;
  std::uint64_t seed = 1;                   ///< of the order of turns and of the sample
  std::chrono::milliseconds limit{60'000};  ///< for one turn; then its worker is killed
  std::string csv{};                        ///< rows go there as problems are done; empty: nowhere
  std::string about{};                      ///< what a new file says before its rows
  bool resume = false;                      ///< go on with `csv`: problems that it holds are not measured again
  std::function<bool()> stop{};             ///< once true, no more is measured
};

struct OracleProgress {
  std::function<void(std::size_t done, std::size_t total, std::size_t failed)> building{};
  std::function<void(std::size_t problem, std::size_t problems, const std::string& line)> problem{};
  std::function<void(const std::string& line, const Error&)> skipped{};  ///< no kernel computes it
};

struct OracleResult {
  std::vector<OracleRow> rows;  ///< those of the file that the oracle went on with, then the new ones
  std::size_t measured = 0;     ///< problems
  std::size_t resumed = 0;      ///< problems that the file had
  std::size_t skipped = 0;
  std::size_t left_out = 0;  ///< problems for which there was no time
};

/// Errors: those of the device and of the file. A problem that cannot be measured is skipped, not an error.
[[nodiscard]] Result<OracleResult> measure_all(const OracleOptions& options, const OracleProgress& progress);

}  // namespace tilesmith
