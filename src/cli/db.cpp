// tilesmith db: the performance database, shown, merged, published.
#include <fmt/core.h>

#include <memory>

#include "base/json.hpp"
#include "cli/performance_database.hpp"
#include "cli/verbs.hpp"
#include "tune/choices.hpp"
#include "tune/exchange.hpp"

namespace tilesmith::cli {
namespace {

struct DbOptions {
  std::string database, out, run, device_class, format = "json";
  std::vector<std::string> others;
  bool as_json = false, runs = false, foreign = false;
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

/// Other programs' samples: time, problem (or why there is none), kernel, device.
Status show_foreign(const DbOptions& o, const std::vector<ForeignSource>& sources) {
  nlohmann::json document = nlohmann::json::array();
  std::size_t samples = 0;
  for (const ForeignSource& source : sources) {
    samples += source.samples.size();
    for (const ForeignSample& sample : source.samples)
      if (o.as_json)
        document.push_back({{"format", source.format},
                            {"origin", source.origin},
                            {"device", source.device},
                            {"problem", sample.problem.empty() ? nlohmann::json() : nlohmann::json(sample.line)},
                            {"note", sample.problem.empty() ? sample.line : std::string()},
                            {"kernel", sample.kernel},
                            {"seconds", sample.seconds},
                            {"failure", sample.failure}});
      else
        fmt::print("{:>13}  {}  {}  {} {}\n",
                   !sample.failure.empty() ? sample.failure
                   : sample.seconds > 0    ? fmt::format("{:.2f} us", sample.seconds * 1e6)
                                           : "-",
                   sample.line, sample.kernel.empty() ? "-" : sample.kernel, source.format, source.device);
  }
  if (o.as_json)
    fmt::print("{}", json_text(document));
  else
    fmt::print("{} samples of {} files of other programs\n", samples, sources.size());
  return {};
}

Status show(const DbOptions& o) {
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  if (o.foreign) {
    TS_ASSIGN(const std::vector<ForeignSource> sources, database.foreign());
    return show_foreign(o, sources);
  }
  TS_ASSIGN(const DatabaseCounts counts, database.counts());
  TS_ASSIGN(const std::vector<TuneRun> runs, database.runs());
  TS_ASSIGN(const std::vector<StoredRace> races, database.races(o.device_class));
  const TuningFile file = choices_of(races);
  if (o.as_json) {
    nlohmann::json document = {
        {"runs", nlohmann::json::array()}, {"choices", nlohmann::json::array()}, {"withdrawn_runs", counts.withdrawn},
        {"races", counts.races},           {"problems", counts.problems},        {"recipes", counts.recipes},
        {"timings", counts.timings},       {"foreign_samples", counts.foreign},  {"digest", file.digest()}};
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
  fmt::print("{} runs, {} races of {} problems, {} recipes, {} timings of finalists; digest of the choices {}\n",
             counts.runs, counts.races, counts.problems, counts.recipes, counts.timings, file.digest());
  if (counts.foreign > 0) fmt::print("{} samples of other programs (--foreign lists them)\n", counts.foreign);
  return {};
}

Status publish(const DbOptions& o) {
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  TS_ASSIGN(const TuningFile file, publish_choices(database, o.out, o.device_class));
  fmt::print("{} choices; digest {}; use it with TILESMITH_TUNING={}\n", file.choices.size(), file.digest(), o.out);
  return {};
}

Status merge(const DbOptions& o) {
  // Each can be read before the first is added.
  for (const std::string& other : o.others) {
    TS_ASSIGN([[maybe_unused]] const Database from, Database::open(other, Database::Mode::read));
  }
  TS_ASSIGN(Database database, open(o, Database::Mode::write));
  for (const std::string& other : o.others) {
    TS_ASSIGN(const Database from, Database::open(other, Database::Mode::read));
    TS_ASSIGN(const DatabaseGain gain, database.merge(from));
    fmt::print("{}: {} new races", other, gain.races);
    if (gain.samples > 0) fmt::print(", {} new samples of other programs", gain.samples);
    fmt::print("\n");
  }
  return {};
}

Status export_file(const DbOptions& o) {
  TS_ASSIGN(const ExchangeFormat format, parse_exchange_format(o.format));
  TS_ASSIGN(const Database database, open(o, Database::Mode::read));
  TS_ASSIGN(const std::vector<StoredRace> races, database.races(o.device_class));
  TS_ASSIGN(const std::vector<ForeignSource> foreign, database.foreign());
  TS_ASSIGN(const std::string text, write_exchange(format, races, foreign));
  if (o.out == "-") {
    fmt::print("{}", text);
    return {};
  }
  return write_file_atomic(o.out, text);
}

Status import_files(const DbOptions& o) {
  TS_ASSIGN(const ExchangeFormat format, parse_exchange_format(o.format));
  std::vector<ExchangeContent> contents;
  // Every file is read before the first is kept.
  for (const std::string& path : o.others) {
    TS_ASSIGN(const std::string text, read_file(path));
    TS_ASSIGN(ExchangeContent content, read_exchange(format, path, text));
    contents.push_back(std::move(content));
  }
  TS_ASSIGN(Database database, open(o, Database::Mode::write));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const ExchangeContent& content = contents[i];
    TS_ASSIGN(const DatabaseGain gain, database.add_all(content.races, content.foreign));
    for (const std::string& why : content.refused) fmt::print(stderr, "refused: {}\n", why);
    fmt::print("{}: {} new races, {} new samples of other programs, {} rows refused\n", o.others[i], gain.races,
               gain.samples, content.refused.size());
  }
  return {};
}

Status withdraw(const DbOptions& o) {
  TS_ASSIGN(Database database, open(o, Database::Mode::change));
  return database.withdraw(o.run);
}

Status prune(const DbOptions& o) {
  TS_ASSIGN(Database database, open(o, Database::Mode::change));
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
    sub->add_flag("--foreign", options->foreign, "What was imported from other programs, instead of the choices");
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
    const auto [sub, options] = add("export", "Write the database to a file that other programs read", export_file);
    sub->add_option("out", options->out, "The file; - is standard output")->required();
    sub->add_option(
           "--format", options->format,
           "json, csv, t4 (Kernel Tuner), tunableop or inductor (PyTorch, what was imported), untuned (problems "
           "for TunableOp), lines (problems)")
        ->capture_default_str();
    sub->add_option("--device-class", options->device_class, "The races of one class of devices alone");
  }
  {
    const auto [sub, options] = add("import", "Add what files of other formats hold", import_files);
    sub->add_option("files", options->others, "The files")->required();
    sub->add_option("--format", options->format,
                    "json, csv (ours), t4 (Kernel Tuner), tunableop, untuned or inductor (PyTorch)")
        ->capture_default_str();
  }
  {
    const auto [sub, options] = add("withdraw", "A run's races count no longer", withdraw);
    sub->add_option("run", options->run, "The run's uuid (db show --runs)")->required();
  }
  add("prune", "Remove what was withdrawn", prune);
  add("verify", "Check the whole file", verify);
}

}  // namespace tilesmith::cli
