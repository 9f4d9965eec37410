// tilesmith db: the performance database, shown, merged, published.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/performance_database.hpp"
#include "cli/verbs.hpp"
#include "tune/choices.hpp"

namespace tilesmith::cli {
namespace {

struct DbOptions {
  std::string database, out, run, device_class;
  std::vector<std::string> others;
  bool as_json = false, runs = false;
};

Result<Database> open(const DbOptions& o, Database::Mode mode) {
  TS_ASSIGN(const std::filesystem::path path, performance_database(o.database));
  return Database::open(path, mode);
}

nlohmann::json to_json(const TunedChoice& choice) {
  return {{"device_class", choice.device_class}, {"problem", choice.line}, {"recipe", choice.name},
          {"seconds", choice.seconds},           {"gain", choice.gain},    {"confirmed", choice.is_confirmed}};
}

nlohmann::json to_json(const TuneRun& run) {
  return {{"uuid", run.uuid},       {"device_class", run.device_class}, {"device", run.device},
          {"started", run.started}, {"program", run.program},           {"compiler", run.compiler},
          {"driver", run.driver}};
}

Status show(const DbOptions& o) {
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  TS_ASSIGN(const DatabaseCounts counts, database.counts());
  TS_ASSIGN(const std::vector<TuneRun> runs, database.runs());
  TS_ASSIGN(const std::vector<StoredRace> races, database.races(o.device_class));
  const TuningFile file = choices_of(races);
  if (o.as_json) {
    nlohmann::json document = {{"runs", nlohmann::json::array()},    {"choices", nlohmann::json::array()},
                               {"withdrawn_runs", counts.withdrawn}, {"races", counts.races},
                               {"problems", counts.problems},        {"recipes", counts.recipes},
                               {"timings", counts.timings},          {"digest", file.digest()}};
    for (const TuneRun& run : runs) document["runs"].push_back(to_json(run));
    for (const TunedChoice& choice : file.choices) document["choices"].push_back(to_json(choice));
    fmt::print("{}", json_text(document));
    return {};
  }
  for (const TuneRun& run : runs)
    if (o.runs)
      fmt::print("{}  {}  {}  {}  tilesmith {}\n", run.uuid, run.started, run.device_class, run.device, run.program);
  for (const TunedChoice& choice : file.choices)
    if (!o.runs)
      fmt::print("{:10.2f} us  {:.3f}  {}  {}  {}\n", choice.seconds * 1e6, choice.gain, choice.line, choice.name,
                 choice.device_class);
  fmt::print("{} runs, {} races of {} problems, {} recipes, {} timings; digest of the choices {}\n", counts.runs,
             counts.races, counts.problems, counts.recipes, counts.timings, file.digest());
  return {};
}

Status publish(const DbOptions& o) {
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  TS_ASSIGN(const std::vector<StoredRace> races, database.races(o.device_class));
  const TuningFile file = choices_of(races);
  if (file.choices.empty()) return fail(ErrorCode::not_found, "there is nothing to publish", "tilesmith tune measures");
  TS_TRY(write_file_atomic(o.out, file.to_text()));
  fmt::print("{} choices; digest {}; use it with TILESMITH_TUNING={}\n", file.choices.size(), file.digest(), o.out);
  return {};
}

Status merge(const DbOptions& o) {
  TS_ASSIGN(Database database, open(o, Database::Mode::write));
  for (const std::string& other : o.others) {
    TS_ASSIGN(const Database from, Database::open(other, Database::Mode::read));
    TS_ASSIGN(const std::int64_t added, database.merge(from));
    fmt::print("{}: {} new races\n", other, added);
  }
  return {};
}

Status withdraw(const DbOptions& o) {
  TS_ASSIGN(Database database, open(o, Database::Mode::write));
  return database.withdraw(o.run);
}

Status prune(const DbOptions& o) {
  TS_ASSIGN(Database database, open(o, Database::Mode::write));
  TS_ASSIGN(const std::int64_t runs, database.prune());
  fmt::print("{} withdrawn runs removed\n", runs);
  return {};
}

Status verify(const DbOptions& o) {
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  TS_TRY(database.check());
  TS_ASSIGN(const std::vector<StoredRace> races, database.races());
  fmt::print("{} races are whole\n", races.size());
  return {};
}

}  // namespace

void add_db(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("db", "The performance database that tune writes");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, Status (*action)(const DbOptions&)) {
    CLI::App* sub = verb->add_subcommand(name, about);
    auto options = std::make_shared<DbOptions>();
    sub->add_option("--db", options->database, "The database (default: tuning.db in the cache directory)");
    sub->callback([options, action, &exit_code] { exit_code = exit_code_of(action(*options)); });
    return std::pair{sub, options};
  };
  {
    const auto [sub, options] = add("show", "What is chosen, and the runs that measured it", show);
    sub->add_flag("--runs", options->runs, "The runs instead of the choices");
    sub->add_option("--device-class", options->device_class, "Of one class of devices alone");
    sub->add_flag("--json", options->as_json, "One JSON document on standard output");
  }
  {
    const auto [sub, options] = add("publish", "Write the choices to a file that dispatchers read", publish);
    sub->add_option("out", options->out, "The file")->required();
    sub->add_option("--device-class", options->device_class, "Of one class of devices alone");
  }
  {
    const auto [sub, options] = add("merge", "Add the races of other databases that this one lacks", merge);
    sub->add_option("others", options->others, "The other databases")->required();
  }
  {
    const auto [sub, options] = add("withdraw", "A run's races count no longer", withdraw);
    sub->add_option("run", options->run, "The run's uuid (db show --runs)")->required();
  }
  add("prune", "Remove what was withdrawn", prune);
  add("verify", "Check the whole file", verify);
}

}  // namespace tilesmith::cli
