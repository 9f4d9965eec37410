// Results in the schema T4 1.0.0 of Kernel Tuner: kernel_tuner/schema/T4/1.0.0/results-schema.json and what
// store_output_file of kernel_tuner/file_utils.py writes (objective "time", times in milliseconds).
//
// Our races are results whose configuration has problem, recipe and name; what T4 has no place for are measurements.
// Any other result is a sample of a foreign kernel: T4 does not say which problem was computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/json_error.hpp"
#include "base/sha256.hpp"
#include "tune/formats/formats.hpp"

namespace tilesmith::formats {
namespace {

using nlohmann::json;

constexpr const char* kT4Hint = "results in the schema T4 1.0.0, as Kernel Tuner's store_output_file writes them";
constexpr std::string_view kValidities[] = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"};
constexpr std::string_view kOurs = "tilesmith_run";  ///< the measurement that only results of ours have

/// T4's word for a failure, which our rows hold as text for people.
const char* invalidity_of(const std::string& failure) {
  const auto says = [&](const char* words) { return failure.find(words) != std::string::npos; };
  if (failure.empty()) return "correct";
  if (says("its result is wrong")) return "correctness";
  if (says("did not end within") || says("took longer than")) return "timeout";
  if (says("compiler") || says("NVRTC")) return "compile";
  return "runtime";
}

json measurement(std::string_view name, json value, const char* unit = "") {
  return {{"name", name}, {"value", std::move(value)}, {"unit", unit}};
}

json result_json(const StoredRace& stored, const Entrant& entrant) {
  const auto& [run, race] = stored;
  json runtimes = json::array();
  for (const auto& block : entrant.blocks)
    for (const double seconds : block) runtimes.push_back(seconds * 1e3);
  if (runtimes.empty() && entrant.least_s > 0) runtimes.push_back(entrant.least_s * 1e3);
  json measurements = json::array();
  if (entrant.failure.empty()) {
    double sum = 0;
    for (const json& each : runtimes) sum += each.get<double>();
    measurements.push_back(measurement("time", sum / static_cast<double>(runtimes.size()), "ms"));
    measurements.push_back(measurement("tilesmith_least", entrant.least_s, "s"));
    measurements.push_back(measurement("tilesmith_block_0", entrant.blocks[0], "s"));
    measurements.push_back(measurement("tilesmith_block_1", entrant.blocks[1], "s"));
  }
  for (const auto& [name, text] : {std::pair{kOurs, &run.uuid},
                                   {"tilesmith_device_class", &run.device_class},
                                   {"tilesmith_device", &run.device},
                                   {"tilesmith_program", &run.program},
                                   {"tilesmith_compiler", &run.compiler},
                                   {"tilesmith_driver", &run.driver},
                                   {"tilesmith_problem", &race.problem},
                                   {"tilesmith_failure", &entrant.failure}})
    measurements.push_back(measurement(name, *text));
  measurements.push_back(measurement("tilesmith_incumbent", race.incumbent.hex()));
  const char* invalidity = invalidity_of(entrant.failure);
  return {{"timestamp", run.started},
          {"configuration", {{"problem", race.line}, {"recipe", entrant.recipe.hex()}, {"name", entrant.name}}},
          {"objectives", json::array({"time"})},
          {"times", {{"runtimes", std::move(runtimes)}}},
          {"invalidity", invalidity},
          {"correctness", invalidity == std::string_view("correctness") ? 0 : 1},
          {"measurements", std::move(measurements)}};
}

const json* find_measurement(const json& result, std::string_view name) {
  if (const auto list = result.find("measurements"); list != result.end() && list->is_array())
    for (const json& each : *list)
      if (each.value("name", std::string()) == name) return &each;
  return nullptr;
}

/// One of our own measurements. Throws json::exception, which the reader catches, when it is missing.
const json& own(const json& result, std::string_view name) {
  static const json kNone;
  const json* found = find_measurement(result, "tilesmith_" + std::string(name));
  return (found == nullptr ? kNone : *found).at("value");
}

Result<StoredRace> own_from(const json& result) {
  const json& configuration = result.at("configuration");
  StoredRace stored{
      .run = {.uuid = own(result, "run"),
              .device_class = own(result, "device_class"),
              .device = own(result, "device"),
              .started = result.at("timestamp"),
              .program = own(result, "program"),
              .compiler = own(result, "compiler"),
              .driver = own(result, "driver")},
      .race = {
          .problem = own(result, "problem"), .line = configuration.at("problem"), .incumbent = {}, .entrants = {}}};
  TS_ASSIGN(stored.race.incumbent, Key128::parse(own(result, "incumbent").get<std::string>()));
  Entrant entrant{.recipe = {}, .name = configuration.at("name"), .failure = own(result, "failure")};
  TS_ASSIGN(entrant.recipe, Key128::parse(configuration.at("recipe").get<std::string>()));
  if (entrant.failure.empty()) {
    entrant.least_s = own(result, "least");
    entrant.blocks = {own(result, "block_0").get<std::vector<double>>(),
                      own(result, "block_1").get<std::vector<double>>()};
  }
  stored.race.entrants.push_back(std::move(entrant));
  return stored;
}

/// Seconds of the first objective, where it is a time with a unit; else nothing.
std::optional<double> seconds_from(const json& result) {
  const auto objectives = result.find("objectives");
  const std::string name =
      objectives != result.end() && objectives->is_array() && !objectives->empty() && objectives->front().is_string()
          ? objectives->front().get<std::string>()
          : "time";
  const json* found = find_measurement(result, name);
  if (found == nullptr || !found->contains("value") || !found->at("value").is_number()) return std::nullopt;
  const std::string unit = found->value("unit", std::string());
  const double value = found->at("value");
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  for (const auto& [known, scale] : {std::pair{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}})
    if (unit == known) return value * scale;
  return std::nullopt;
}

}  // namespace

std::string write_t4(const std::vector<StoredRace>& races) {
  std::string out = "{\"schema_version\": \"1.0.0\", \"results\": [";
  const char* separator = "\n";
  for (const StoredRace& stored : races)
    for (const Entrant& entrant : stored.race.entrants) {
      out += separator + json_line(result_json(stored, entrant));
      separator = ",\n";
    }
  return out + "]}\n";
}

Result<ExchangeContent> read_t4(std::string_view origin, std::string_view text) {
  ExchangeContent content;
  ForeignSource source{.digest = to_hex(sha256(text)),
                       .format = "t4",
                       .origin = std::string(origin),
                       .device = {},
                       .header = {},
                       .samples = {}};
  try {
    const json document = json::parse(text);
    if (!document.is_object() || !document.contains("results") || !document.at("results").is_array())
      return unreadable(origin, "it has no results", kT4Hint);
    if (const std::string version = document.value("schema_version", std::string()); !version.starts_with("1."))
      return unreadable(origin, fmt::format("its schema_version is {}", version.empty() ? "missing" : version),
                        kT4Hint);
    std::size_t number = 0;
    for (const json& result : document.at("results")) {
      const auto refuse = [&](std::string_view why) {
        content.refused.push_back(fmt::format("{}: result {}: {}", origin, number, why));
      };
      ++number;
      if (!result.is_object()) {
        refuse("it is no object");
        continue;
      }
      if (find_measurement(result, kOurs) != nullptr) {
        auto one = own_from(result);
        if (!one) return unreadable(origin, fmt::format("result {}: {}", number, one.error().message), kT4Hint);
        RaceRecord& race = race_in(content.races, one->run, one->race.problem);
        race.line = one->race.line;
        race.incumbent = one->race.incumbent;
        race.entrants.push_back(std::move(one->race.entrants.front()));
        continue;
      }
      const json invalidity = result.value("invalidity", json());
      if (!result.contains("configuration") || !result.at("configuration").is_object()) {
        refuse("it has no configuration");
      } else if (!invalidity.is_string() ||
                 std::ranges::find(kValidities, invalidity.get<std::string>()) == std::end(kValidities)) {
        refuse("its invalidity is none of the schema's words");
      } else {
        const std::string word = invalidity;
        const auto seconds = word == "correct" ? seconds_from(result) : std::optional(0.0);
        if (!seconds)
          refuse("it is correct, and its objective is no time with a unit");
        else
          source.samples.push_back({.problem = {},
                                    .line = "T4 does not say which problem was computed",
                                    .kernel = json_line(result.at("configuration")),
                                    .seconds = *seconds,
                                    .failure = word == "correct" ? std::string() : word,
                                    .original = json_line(result)});
      }
    }
  } catch (const json::exception& error) {
    return unreadable(origin, words_of(error), kT4Hint);
  }
  for (const StoredRace& stored : content.races)
    if (const auto flaw = flaw_of(stored)) return unreadable(origin, *flaw, kT4Hint);
  if (!source.samples.empty()) content.foreign.push_back(std::move(source));
  return content;
}

}  // namespace tilesmith::formats
