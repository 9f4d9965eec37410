// The performance database: what races measured, kept for ever. It is append-only: a run adds its races, nothing is
// changed later, and what follows from the rows (which recipe to choose) is computed from them anew each time
// (choices.hpp). So databases of several machines, days and processes merge by union, in any order, any number of
// times.
//
// A race is written in one transaction: a killed process loses the race it was at and nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "tune/foreign.hpp"
#include "tune/sqlite.hpp"

namespace tilesmith {

/// One process that tuned: on what, with what, when.
struct TuneRun {
  std::string uuid;          ///< 32 hexadecimal digits, unique
  std::string device_class;  ///< choose/device_class.hpp
  std::string device;        ///< its name, for people
  std::string started;       ///< "2026-11-23T10:15:00Z"
  std::string program;       ///< version of Tilesmith
  std::string compiler;      ///< of kernels; empty when it is not known
  std::string driver;        ///< of the device; empty on the CPU

  friend bool operator==(const TuneRun&, const TuneRun&) = default;
};

/// A candidate of a race.
struct Entrant {
  Key128 recipe;        ///< key_of(recipe)
  std::string name;     ///< recipe_name
  std::string failure;  ///< why it failed; empty when it did not
  double least_s = 0;   ///< the least time of a call that any round saw, seconds; 0 for one that failed
  std::array<std::vector<double>, 2> blocks{};  ///< seconds of a call in the turns of both blocks; empty: no finalist

  friend bool operator==(const Entrant&, const Entrant&) = default;
};

/// The candidates of one problem, raced in one run.
struct RaceRecord {
  std::string problem;  ///< identity_of(problem)
  std::string line;     ///< to_line(problem): what repeats it
  Key128 incumbent;     ///< the recipe that was chosen when the race began
  std::vector<Entrant> entrants;

  friend bool operator==(const RaceRecord&, const RaceRecord&) = default;
};

/// A race with the run that it belongs to.
struct StoredRace {
  TuneRun run;
  RaceRecord race;
};

struct DatabaseCounts {
  std::int64_t runs = 0, withdrawn = 0, races = 0, problems = 0, recipes = 0, timings = 0, foreign = 0;
};

/// What an addition of many brought.
struct DatabaseGain {
  std::int64_t races = 0;    ///< that were new
  std::int64_t samples = 0;  ///< of other programs, that were new
};

class Database {
 public:
  using Mode = SqliteDatabase::Mode;

  /// In mode write the file is created when it is not there. Errors: not_found; io, also for a file that is no database
  /// of ours or has another version.
  [[nodiscard]] static Result<Database> open(const std::filesystem::path& path, Mode mode);

  /// Adds a race, and its run when it is new. Errors: io; invalid_argument, when the run has a race of that problem.
  [[nodiscard]] Status add(const TuneRun& run, const RaceRecord& race);
  /// Adds the races and the other programs' files that are new, all of them or, where one cannot be added, none.
  [[nodiscard]] Result<DatabaseGain> add_all(std::span<const StoredRace> races, std::span<const ForeignSource> foreign);
  /// Every race of runs that are not withdrawn, of one device class or of all (empty), oldest run first.
  [[nodiscard]] Result<std::vector<StoredRace>> races(std::string_view device_class = {}) const;
  /// The files of other programs, by format, name and digest.
  [[nodiscard]] Result<std::vector<ForeignSource>> foreign() const;
  /// Adds the races and the other programs' files of another database that this one lacks. A run withdrawn there is
  /// withdrawn here.
  [[nodiscard]] Result<DatabaseGain> merge(const Database& other);
  /// The run's races count no longer; the rows stay. Error: not_found.
  [[nodiscard]] Status withdraw(std::string_view uuid);
  /// Removes the rows of withdrawn runs for good; the number of runs. A later merge may bring them back.
  [[nodiscard]] Result<std::int64_t> prune();
  [[nodiscard]] Result<std::vector<TuneRun>> runs() const;
  [[nodiscard]] Result<DatabaseCounts> counts() const;
  /// SQLite's own check of the whole file. Error: io, with what is wrong.
  [[nodiscard]] Status check() const;

 private:
  explicit Database(SqliteDatabase database) : database_(std::move(database)) {}
  [[nodiscard]] Result<std::int64_t> id_of(std::string_view select, std::string_view insert, std::string_view key,
                                           std::string_view more);
  [[nodiscard]] Result<std::int64_t> run_id(const TuneRun& run);
  [[nodiscard]] Result<std::vector<TuneRun>> runs_where(const char* condition) const;
  [[nodiscard]] Result<DatabaseGain> add_all_in_transaction(std::span<const StoredRace> races,
                                                            std::span<const ForeignSource> foreign);
  /// The number of samples that were new: all of the file, or none.
  [[nodiscard]] Result<std::int64_t> add_foreign_in_transaction(const ForeignSource& source);
  /// Whether the race was new.
  [[nodiscard]] Result<bool> add_in_transaction(const TuneRun& run, const RaceRecord& race);

  mutable SqliteDatabase database_;
};

}  // namespace tilesmith
