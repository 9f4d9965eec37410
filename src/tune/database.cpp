#include "tune/database.hpp"

#include <fmt/format.h>

namespace tilesmith {
namespace {

/// "Tile": tells our files from other programs' (PRAGMA application_id).
constexpr std::int64_t kApplication = 0x54696c65;
constexpr std::int64_t kSchema = 1;

constexpr const char* kTables = R"(
CREATE TABLE run(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, device_class TEXT NOT NULL, device TEXT NOT NULL, started TEXT NOT NULL,
                 program TEXT NOT NULL, compiler TEXT NOT NULL, driver TEXT NOT NULL, withdrawn INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE problem(id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, line TEXT NOT NULL) STRICT;
CREATE TABLE recipe(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL) STRICT;
CREATE TABLE race(id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run, problem INTEGER NOT NULL REFERENCES problem,
                  incumbent INTEGER NOT NULL REFERENCES recipe, UNIQUE(run, problem)) STRICT;
CREATE TABLE entrant(race INTEGER NOT NULL REFERENCES race, recipe INTEGER NOT NULL REFERENCES recipe, failure TEXT NOT NULL, least_s REAL NOT NULL,
                     PRIMARY KEY(race, recipe)) STRICT, WITHOUT ROWID;
CREATE TABLE turn(race INTEGER NOT NULL REFERENCES race, recipe INTEGER NOT NULL REFERENCES recipe, block INTEGER NOT NULL, number INTEGER NOT NULL,
                  seconds REAL NOT NULL, PRIMARY KEY(race, recipe, block, number)) STRICT, WITHOUT ROWID;
)";

Result<std::int64_t> integer_of(SqliteDatabase& database, std::string_view sql) {
  TS_ASSIGN(SqliteStatement statement, database.prepare(sql));
  TS_ASSIGN(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

std::unexpected<Error> not_ours(const SqliteDatabase& database, std::string_view what,
                                std::string hint = "a file that tilesmith tune wrote, or a new name") {
  return fail(ErrorCode::io, fmt::format("{} {}", database.path(), what), std::move(hint));
}

/// A recipe's key, which a damaged file may have lost.
Result<Key128> key_in(const SqliteDatabase& database, const SqliteStatement& row, int column) {
  const std::string text = row.text(column);
  const auto key = Key128::parse(text);
  if (!key) return not_ours(database, fmt::format("is damaged: {}", key.error().message), "a copy of it that is whole");
  return *key;
}

}  // namespace

Result<Database> Database::open(const std::filesystem::path& path, Mode mode) {
  TS_ASSIGN(SqliteDatabase database, SqliteDatabase::open(path, mode));
  if (mode != Mode::read) {
    // Readers see the state before a writer's commit, and go on reading while it writes.
    TS_TRY(database.write_ahead());
    TS_TRY(database.execute("PRAGMA synchronous=FULL"));
    TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database));
    TS_ASSIGN(const std::int64_t tables, integer_of(database, "SELECT count(*) FROM sqlite_schema"));
    TS_ASSIGN(const std::int64_t application, integer_of(database, "PRAGMA application_id"));
    if (tables == 0 && application == 0) {
      TS_TRY(database.execute(kTables));
      TS_TRY(database.execute(
          fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplication, kSchema).c_str()));
    }
    TS_TRY(transaction.commit());
  }
  TS_ASSIGN(const std::int64_t application, integer_of(database, "PRAGMA application_id"));
  if (application != kApplication) return not_ours(database, "is no performance database");
  TS_ASSIGN(const std::int64_t schema, integer_of(database, "PRAGMA user_version"));
  if (schema != kSchema)
    return not_ours(database, fmt::format("has schema {}, and this program reads {}", schema, kSchema),
                    "the tilesmith that wrote it, or a new name");
  return Database(std::move(database));
}

Result<std::int64_t> Database::id_of(std::string_view select, std::string_view insert, std::string_view key,
                                     std::string_view more) {
  TS_ASSIGN(SqliteStatement find, database_.prepare(select));
  TS_ASSIGN(const bool known, find.bind(key).step());
  if (known) return find.integer(0);
  TS_ASSIGN(SqliteStatement add, database_.prepare(insert));
  TS_TRY(add.bind(key).bind(more).run());
  return integer_of(database_, "SELECT last_insert_rowid()");
}

Result<std::int64_t> Database::run_id(const TuneRun& run) {
  TS_ASSIGN(SqliteStatement find, database_.prepare("SELECT id FROM run WHERE uuid = ?"));
  TS_ASSIGN(const bool known, find.bind(run.uuid).step());
  if (known) return find.integer(0);
  TS_ASSIGN(SqliteStatement add,
            database_.prepare("INSERT INTO run(uuid, device_class, device, started, program, compiler, driver) "
                              "VALUES(?, ?, ?, ?, ?, ?, ?)"));
  TS_TRY(add.bind(run.uuid)
             .bind(run.device_class)
             .bind(run.device)
             .bind(run.started)
             .bind(run.program)
             .bind(run.compiler)
             .bind(run.driver)
             .run());
  return integer_of(database_, "SELECT last_insert_rowid()");
}

Result<bool> Database::add_in_transaction(const TuneRun& run, const RaceRecord& race) {
  constexpr std::string_view kFindRecipe = "SELECT id FROM recipe WHERE key = ?";
  constexpr std::string_view kAddRecipe = "INSERT INTO recipe(key, name) VALUES(?, ?)";
  TS_ASSIGN(const std::int64_t run_row, run_id(run));
  TS_ASSIGN(const std::int64_t problem,
            id_of("SELECT id FROM problem WHERE identity = ?", "INSERT INTO problem(identity, line) VALUES(?, ?)",
                  race.problem, race.line));
  {
    TS_ASSIGN(SqliteStatement find, database_.prepare("SELECT 1 FROM race WHERE run = ? AND problem = ?"));
    TS_ASSIGN(const bool known, find.bind(run_row).bind(problem).step());
    if (known) return false;
  }
  std::int64_t incumbent = 0;
  std::map<Key128, std::int64_t> recipes;
  for (const Entrant& entrant : race.entrants) {
    TS_ASSIGN(const std::int64_t recipe, id_of(kFindRecipe, kAddRecipe, entrant.recipe.hex(), entrant.name));
    recipes.emplace(entrant.recipe, recipe);
    if (entrant.recipe == race.incumbent) incumbent = recipe;
  }
  if (incumbent == 0)
    return fail(ErrorCode::internal, fmt::format("the incumbent is no entrant of the race of {}", race.line));
  TS_ASSIGN(SqliteStatement add_race, database_.prepare("INSERT INTO race(run, problem, incumbent) VALUES(?, ?, ?)"));
  TS_TRY(add_race.bind(run_row).bind(problem).bind(incumbent).run());
  TS_ASSIGN(const std::int64_t race_row, integer_of(database_, "SELECT last_insert_rowid()"));
  TS_ASSIGN(SqliteStatement add_entrant, database_.prepare("INSERT INTO entrant VALUES(?, ?, ?, ?)"));
  TS_ASSIGN(SqliteStatement add_turn, database_.prepare("INSERT INTO turn VALUES(?, ?, ?, ?, ?)"));
  for (const Entrant& entrant : race.entrants) {
    const std::int64_t recipe = recipes.at(entrant.recipe);
    TS_TRY(add_entrant.bind(race_row).bind(recipe).bind(entrant.failure).bind(entrant.least_s).run());
    for (std::int64_t block = 0; block < 2; ++block)
      for (std::size_t i = 0; i < entrant.blocks[block].size(); ++i)
        TS_TRY(add_turn.bind(race_row)
                   .bind(recipe)
                   .bind(block)
                   .bind(static_cast<std::int64_t>(i))
                   .bind(entrant.blocks[block][i])
                   .run());
  }
  return true;
}

Status Database::add(const TuneRun& run, const RaceRecord& race) {
  TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database_));
  TS_ASSIGN(const bool added, add_in_transaction(run, race));
  if (!added)
    return fail(ErrorCode::invalid_argument, fmt::format("run {} has a race of {} already", run.uuid, race.line));
  return transaction.commit();
}

Result<std::vector<StoredRace>> Database::races(std::string_view device_class) const {
  TS_ASSIGN(
      SqliteStatement read_race,
      database_.prepare("SELECT race.id, uuid, device_class, device, started, program, compiler, driver, identity, "
                        "line, key FROM race "
                        "JOIN run ON run.id = race.run JOIN problem ON problem.id = race.problem JOIN recipe ON "
                        "recipe.id = incumbent "
                        "WHERE withdrawn = 0 AND (?1 = '' OR device_class = ?1) ORDER BY started, uuid, identity"));
  TS_ASSIGN(SqliteStatement read_entrant,
            database_.prepare("SELECT key, name, failure, least_s FROM entrant JOIN recipe ON recipe.id = recipe "
                              "WHERE race = ? ORDER BY key"));
  TS_ASSIGN(SqliteStatement read_turn,
            database_.prepare("SELECT key, block, seconds FROM turn JOIN recipe ON recipe.id = recipe "
                              "WHERE race = ? ORDER BY key, block, number"));
  std::vector<StoredRace> out;
  read_race.bind(device_class);
  while (true) {
    TS_ASSIGN(const bool row, read_race.step());
    if (!row) return out;
    const std::int64_t id = read_race.integer(0);
    StoredRace stored{.run = {read_race.text(1), read_race.text(2), read_race.text(3), read_race.text(4),
                              read_race.text(5), read_race.text(6), read_race.text(7)},
                      .race = {}};
    stored.race.problem = read_race.text(8);
    stored.race.line = read_race.text(9);
    TS_ASSIGN(stored.race.incumbent, key_in(database_, read_race, 10));
    read_entrant.bind(id);
    while (true) {
      TS_ASSIGN(const bool more, read_entrant.step());
      if (!more) break;
      Entrant entrant{
          .recipe = {}, .name = read_entrant.text(1), .failure = read_entrant.text(2), .least_s = read_entrant.real(3)};
      TS_ASSIGN(entrant.recipe, key_in(database_, read_entrant, 0));
      stored.race.entrants.push_back(std::move(entrant));
    }
    read_turn.bind(id);
    auto entrant = stored.race.entrants.begin();
    while (true) {
      TS_ASSIGN(const bool more, read_turn.step());
      if (!more) break;
      TS_ASSIGN(const Key128 key, key_in(database_, read_turn, 0));
      while (entrant != stored.race.entrants.end() && entrant->recipe != key) ++entrant;
      const std::int64_t block = read_turn.integer(1);
      if (entrant == stored.race.entrants.end() || block < 0 || block > 1)
        return not_ours(database_, "has a turn without its entrant");
      entrant->blocks[static_cast<std::size_t>(block)].push_back(read_turn.real(2));
    }
    out.push_back(std::move(stored));
  }
}

Result<std::vector<TuneRun>> Database::runs() const {
  return runs_where("withdrawn = 0");
}

Result<std::vector<TuneRun>> Database::runs_where(const char* condition) const {
  TS_ASSIGN(SqliteStatement read,
            database_.prepare(fmt::format("SELECT uuid, device_class, device, started, program, compiler, driver "
                                          "FROM run WHERE {} ORDER BY started, uuid",
                                          condition)));
  std::vector<TuneRun> out;
  while (true) {
    TS_ASSIGN(const bool row, read.step());
    if (!row) return out;
    out.push_back({read.text(0), read.text(1), read.text(2), read.text(3), read.text(4), read.text(5), read.text(6)});
  }
}

Result<DatabaseGain> Database::add_all_in_transaction(std::span<const StoredRace> races,
                                                      std::span<const ForeignSource> foreign) {
  DatabaseGain gain;
  for (const StoredRace& stored : races) {
    TS_ASSIGN(const bool is_new, add_in_transaction(stored.run, stored.race));
    gain.races += is_new ? 1 : 0;
  }
  for (const ForeignSource& source : foreign) {
    TS_ASSIGN(const std::int64_t added, add_foreign_in_transaction(source));
    gain.samples += added;
  }
  return gain;
}

Result<DatabaseGain> Database::add_all(std::span<const StoredRace> races, std::span<const ForeignSource> foreign) {
  TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database_));
  TS_ASSIGN(const DatabaseGain gain, add_all_in_transaction(races, foreign));
  TS_TRY(transaction.commit());
  return gain;
}

Result<DatabaseGain> Database::merge(const Database& other) {
  TS_ASSIGN(const std::vector<StoredRace> theirs, other.races());
  TS_ASSIGN(const std::vector<ForeignSource> foreign, other.foreign());
  // A withdrawn run leaves its name behind, so that no later merge brings its races in again.
  TS_ASSIGN(const std::vector<TuneRun> withdrawn, other.runs_where("withdrawn = 1"));
  TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database_));
  TS_ASSIGN(const DatabaseGain gain, add_all_in_transaction(theirs, foreign));
  TS_ASSIGN(SqliteStatement mark, database_.prepare("UPDATE run SET withdrawn = 1 WHERE id = ?"));
  for (const TuneRun& run : withdrawn) {
    TS_ASSIGN(const std::int64_t id, run_id(run));
    TS_TRY(mark.bind(id).run());
  }
  TS_TRY(transaction.commit());
  return gain;
}

Status Database::withdraw(std::string_view uuid) {
  TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database_));
  TS_ASSIGN(SqliteStatement mark, database_.prepare("UPDATE run SET withdrawn = 1 WHERE uuid = ?"));
  TS_TRY(mark.bind(uuid).run());
  TS_ASSIGN(const std::int64_t changed, integer_of(database_, "SELECT changes()"));
  if (changed == 0)
    return fail(ErrorCode::not_found, fmt::format("{} has no run {}", database_.path(), uuid.substr(0, 64)),
                "tilesmith db show --runs lists them");
  return transaction.commit();
}

Result<std::int64_t> Database::prune() {
  TS_ASSIGN(SqliteTransaction transaction, SqliteTransaction::begin(database_));
  TS_ASSIGN(const std::int64_t runs, integer_of(database_, "SELECT count(*) FROM run WHERE withdrawn = 1"));
  TS_TRY(database_.execute(R"(
    DELETE FROM turn WHERE race IN (SELECT race.id FROM race JOIN run ON run.id = race.run WHERE withdrawn = 1);
    DELETE FROM entrant WHERE race IN (SELECT race.id FROM race JOIN run ON run.id = race.run WHERE withdrawn = 1);
    DELETE FROM race WHERE run IN (SELECT id FROM run WHERE withdrawn = 1);
    DELETE FROM run WHERE withdrawn = 1;
    DELETE FROM problem WHERE id NOT IN (SELECT problem FROM race);
    DELETE FROM recipe WHERE id NOT IN (SELECT recipe FROM entrant);)"));
  TS_TRY(transaction.commit());
  TS_TRY(database_.execute("VACUUM"));
  return runs;
}

Result<DatabaseCounts> Database::counts() const {
  DatabaseCounts out;
  for (const auto& [member, sql] :
       {std::pair{&DatabaseCounts::runs, "SELECT count(*) FROM run WHERE withdrawn = 0"},
        std::pair{&DatabaseCounts::withdrawn, "SELECT count(*) FROM run WHERE withdrawn = 1"},
        std::pair{&DatabaseCounts::races, "SELECT count(*) FROM race"},
        std::pair{&DatabaseCounts::problems, "SELECT count(*) FROM problem"},
        std::pair{&DatabaseCounts::recipes, "SELECT count(*) FROM recipe"},
        std::pair{&DatabaseCounts::timings, "SELECT count(*) FROM turn"}}) {
    TS_ASSIGN(out.*member, integer_of(database_, sql));
  }
  TS_ASSIGN(const std::vector<ForeignSource> sources, foreign());
  for (const ForeignSource& source : sources) out.foreign += static_cast<std::int64_t>(source.samples.size());
  return out;
}

Status Database::check() const {
  TS_ASSIGN(SqliteStatement statement, database_.prepare("PRAGMA integrity_check(1)"));
  TS_ASSIGN(const bool row, statement.step());
  if (row && statement.text(0) == "ok") return {};
  return fail(ErrorCode::io, fmt::format("{}: {}", database_.path(), row ? statement.text(0) : "no answer"),
              "a merge of it into a new database saves what can be read");
}

}  // namespace tilesmith
