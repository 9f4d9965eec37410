// The tuner: races the candidates of problems on a device and keeps what was measured in the performance database.
//
// Kernels run in a worker process, which may crash or hang: then the candidate has failed, and another worker goes on
// with the race where it was. What comes beyond a first look, or sets the time that others are compared with, is
// verified against the float64 reference: one that is wrong has failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "choose/inductor.hpp"
#include "sweep/operation.hpp"
#include "tilesmith/dispatcher.hpp"
#include "tune/database.hpp"

namespace tilesmith {

struct TuneOptions {
  BenchProblems problems;
  Device device{};
  std::filesystem::path database;
  int threads = 0;       ///< of a call on the CPU; 0: every processor
  int workers = 0;       ///< compilers at a time; 0: TILESMITH_WORKERS, else as many as processors and memory allow
  int candidates = 32;   ///< that race, the policy's best first; 0: all
  double budget_s = 10;  ///< of timing for one problem
  Determinism determinism = Determinism::bitwise;
  SelectionPolicy policy = SelectionPolicy::dispatch;  ///< which candidates race, beside what is chosen today
  bool again = false;                       ///< race problems too that the database has for this class of devices
  std::uint64_t seed = 1;                   ///< of the order of turns
  std::chrono::milliseconds limit{60'000};  ///< for one step of a race; then its worker is killed
};

/// What came of one problem's race.
struct TuneOutcome {
  std::string line;     ///< to_line(problem)
  std::string before;   ///< the recipe that was chosen before, by name
  std::string chosen;   ///< the recipe that is chosen now
  double before_s = 0;  ///< seconds of a call; 0 when what was chosen before failed
  double chosen_s = 0;
  double gain = 1;  ///< before over now, measured in turns; 1 when nothing was confirmed better
  std::size_t candidates = 0, failed = 0, timings = 0;
  double seconds = 0;  ///< that the race took, building aside
};

struct TuneProgress {
  std::function<void(std::size_t done, std::size_t total, std::size_t failed)> building{};
  std::function<void(std::size_t problem, std::size_t problems, const std::string& line)> problem{};
  std::function<void(const TuneOutcome&)> outcome{};
  std::function<void(const std::string& line, const Error&)> skipped{};  ///< no kernel computes it, or none ran
};

struct TuneSummary {
  std::string device_class;
  std::string run;  ///< its uuid in the database
  std::size_t raced = 0;
  std::size_t known = 0;  ///< problems that the database had
  std::size_t skipped = 0;
  std::size_t improved = 0;  ///< problems whose choice changed
};

/// Errors: those of the device and of the database. A problem that cannot be raced is skipped, not an error.
[[nodiscard]] Result<TuneSummary> tune(const TuneOptions& options, const TuneProgress& progress);

}  // namespace tilesmith
