// Our own JSON: {"tilesmith_database": 1, "keys": "v2", "races": [...], "foreign": [...]}, a race or a file of another
// program on each line.
#include <fmt/format.h>

#include "base/json.hpp"
#include "base/json_error.hpp"
#include "tune/formats/formats.hpp"
#include "vocabulary/canonical.hpp"

namespace tilesmith::formats {
namespace {

using nlohmann::json;

constexpr int kDatabaseFormat = 1;

json run_json(const TuneRun& run) {
  return {{"uuid", run.uuid},       {"device_class", run.device_class}, {"device", run.device},
          {"started", run.started}, {"program", run.program},           {"compiler", run.compiler},
          {"driver", run.driver}};
}

TuneRun run_from(const json& from) {
  return {.uuid = from.at("uuid"),
          .device_class = from.at("device_class"),
          .device = from.at("device"),
          .started = from.at("started"),
          .program = from.at("program"),
          .compiler = from.at("compiler"),
          .driver = from.at("driver")};
}

json race_json(const StoredRace& stored) {
  json entrants = json::array();
  for (const Entrant& entrant : stored.race.entrants)
    entrants.push_back({{"recipe", entrant.recipe.hex()},
                        {"name", entrant.name},
                        {"failure", entrant.failure},
                        {"least_s", entrant.least_s},
                        {"blocks_s", entrant.blocks}});
  return {{"run", run_json(stored.run)},
          {"problem", stored.race.problem},
          {"line", stored.race.line},
          {"incumbent", stored.race.incumbent.hex()},
          {"entrants", std::move(entrants)}};
}

Result<StoredRace> race_from(const json& from) {
  StoredRace stored{.run = run_from(from.at("run")),
                    .race = {.problem = from.at("problem"), .line = from.at("line"), .incumbent = {}, .entrants = {}}};
  TS_ASSIGN(stored.race.incumbent, Key128::parse(from.at("incumbent").get<std::string>()));
  for (const json& each : from.at("entrants")) {
    Entrant entrant{
        .recipe = {}, .name = each.at("name"), .failure = each.at("failure"), .least_s = each.at("least_s")};
    TS_ASSIGN(entrant.recipe, Key128::parse(each.at("recipe").get<std::string>()));
    entrant.blocks = each.at("blocks_s").get<std::array<std::vector<double>, 2>>();
    stored.race.entrants.push_back(std::move(entrant));
  }
  return stored;
}

json source_json(const ForeignSource& source) {
  json samples = json::array();
  for (const ForeignSample& sample : source.samples)
    samples.push_back({{"problem", sample.problem},
                       {"line", sample.line},
                       {"kernel", sample.kernel},
                       {"seconds", sample.seconds},
                       {"failure", sample.failure},
                       {"original", sample.original}});
  return {{"digest", source.digest}, {"format", source.format}, {"origin", source.origin},
          {"device", source.device}, {"header", source.header}, {"samples", std::move(samples)}};
}

ForeignSource source_from(const json& from) {
  ForeignSource source{.digest = from.at("digest"),
                       .format = from.at("format"),
                       .origin = from.at("origin"),
                       .device = from.at("device"),
                       .header = from.at("header"),
                       .samples = {}};
  for (const json& each : from.at("samples"))
    source.samples.push_back({.problem = each.at("problem"),
                              .line = each.at("line"),
                              .kernel = each.at("kernel"),
                              .seconds = each.at("seconds"),
                              .failure = each.at("failure"),
                              .original = each.at("original")});
  return source;
}

void append_list(std::string& out, const char* name, const json& list) {
  out += fmt::format(", \"{}\": [", name);
  const char* separator = "\n";
  for (const json& each : list) {
    out += separator + json_line(each);
    separator = ",\n";
  }
  out += "]";
}

}  // namespace

std::string write_json(const std::vector<StoredRace>& races, const std::vector<ForeignSource>& foreign) {
  std::string out = fmt::format("{{\"tilesmith_database\": {}, \"keys\": \"{}\"", kDatabaseFormat, kCanonicalVersion);
  json race_list = json::array(), foreign_list = json::array();
  for (const StoredRace& stored : races) race_list.push_back(race_json(stored));
  for (const ForeignSource& source : foreign) foreign_list.push_back(source_json(source));
  append_list(out, "races", race_list);
  append_list(out, "foreign", foreign_list);
  return out + "}\n";
}

Result<ExchangeContent> read_json(std::string_view origin, std::string_view text) {
  constexpr const char* kHint =
      "a file that tilesmith db export --format json wrote, or --format with the name of what it is";
  ExchangeContent content;
  try {
    const json document = json::parse(text);
    if (!document.is_object() || !document.contains("tilesmith_database"))
      return unreadable(origin, "this is no exported database", kHint);
    if (const int format = document.at("tilesmith_database"); format != kDatabaseFormat)
      return unreadable(origin, fmt::format("its format is {}, and this program reads {}", format, kDatabaseFormat),
                        kHint);
    if (const std::string keys = document.at("keys"); keys != kCanonicalVersion)
      return unreadable(origin,
                        fmt::format("its keys have version {}, and name no recipe of this program, whose keys have {}",
                                    keys, kCanonicalVersion),
                        "the version of tilesmith that wrote it");
    for (const json& each : document.at("races")) {
      auto stored = race_from(each);
      if (!stored) return unreadable(origin, stored.error().message, kHint);
      if (const auto flaw = flaw_of(*stored)) return unreadable(origin, *flaw, kHint);
      content.races.push_back(std::move(*stored));
    }
    for (const json& each : document.at("foreign")) content.foreign.push_back(source_from(each));
  } catch (const json::exception& error) {
    return unreadable(origin, words_of(error), kHint);
  }
  return content;
}

}  // namespace tilesmith::formats
