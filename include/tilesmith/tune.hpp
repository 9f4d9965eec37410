// Measuring which kernels compute problems in the least time, for later dispatchers.
//
//   auto report = tilesmith::tune({.problems = {"gemm -m 48 -n 1536 -k 7168 --dtype bf16"},
//                                  .device = {tilesmith::DeviceKind::cuda, 0},
//                                  .file = "choices.json"});
//   tilesmith::Dispatcher dispatcher({.device = {tilesmith::DeviceKind::cuda, 0}, .tuning = "choices.json"});
//
// The races run in the program `tilesmith`, a process of its own, so that a kernel that crashes or hangs does no harm
// here, and a CUDA context of this process is left alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesmith/device.hpp"
#include "tilesmith/error.hpp"

namespace tilesmith {

struct TuneRequest {
  /// A line each, as `tilesmith run` takes it and TILESMITH_LOG=debug writes it: "gemm -m 8 -n 64 -k 64". A size may be
  /// a range ("-m 1:8192"): then sizes between are covered too.
  std::vector<std::string> problems{};
  Device device{};
  int threads = 0;             ///< of a call on the CPU; 0: every processor
  double budget_seconds = 10;  ///< of timing for one problem: 0.001 to 1e6
  int candidates = 32;         ///< recipes that race; 0: all
  bool again = false;          ///< race problems too that the database has for this class of devices
  std::string database{};      ///< the performance database; empty: tuning.db in the cache directory
  std::string file{};          ///< where to write the choices of the whole database; empty: nowhere
};

/// What came of one problem's race.
struct TunedProblem {
  std::string problem;        ///< its line
  std::string before;         ///< the recipe that was chosen before the race
  std::string chosen;         ///< the recipe that is chosen now
  double before_seconds = 0;  ///< of a call; 0: what was chosen before failed
  double chosen_seconds = 0;
  double gain = 1;  ///< before over now, measured in turns; 1: nothing was confirmed better
};

struct SkippedProblem {
  std::string problem;
  std::string reason;  ///< no kernel computes it, or none ran
};

struct TuneReport {
  std::vector<TunedProblem> problems;   ///< that were raced
  std::vector<SkippedProblem> skipped;  ///< that were not
  std::int64_t known = 0;               ///< problems that the database had, and that were not raced again
  std::string database;                 ///< where the measurements are
};

/// Races the kernels of problems and keeps what was measured. Kernels are verified; one that is wrong never wins. A
/// race is kept whole or not at all, so an interrupted call goes on where it stopped when it is made again. The program
/// is looked for in TILESMITH_PROGRAM, beside the library, in the folder bin beside the library's, and in PATH. Errors:
/// invalid_argument; not_found, without the program; unsupported, when no problem could be tuned; io and others with
/// the program's words.
[[nodiscard]] TILESMITH_API Result<TuneReport> tune(const TuneRequest& request);

}  // namespace tilesmith
