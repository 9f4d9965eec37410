#include "tune/formats/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/json.hpp"
#include "problem/derive.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/line.hpp"
#include "sweep/lines.hpp"

namespace tilesmith::formats {

std::unexpected<Error> unreadable(std::string_view origin, std::string what, std::string hint) {
  return fail(ErrorCode::parse, fmt::format("{}: {}", origin, what), std::move(hint));
}

std::unexpected<Error> unreadable(std::string_view origin, const std::vector<std::string>& refused,
                                  std::string_view none, std::string hint) {
  return refused.empty() ? unreadable(origin, std::string(none), std::move(hint))
                         : fail(ErrorCode::parse, refused.front(), std::move(hint));
}

std::string json_line(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<std::string> flaw_of(const StoredRace& stored) {
  const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds > 0; };
  const std::string& uuid = stored.run.uuid;
  if (uuid.size() != 32 || uuid.find_first_not_of("0123456789abcdef") != std::string::npos)
    return fmt::format("the run {} is not 32 hexadecimal digits", uuid.substr(0, 64));
  if (stored.run.device_class.empty()) return "the run has no class of devices";
  if (stored.race.problem.empty()) return "a race has no problem";
  std::vector<Key128> recipes;
  for (const Entrant& entrant : stored.race.entrants) {
    recipes.push_back(entrant.recipe);
    const bool failed = !entrant.failure.empty();
    if (failed ? entrant.least_s != 0 : !is_time(entrant.least_s))
      return fmt::format("{} has the least time {} s", entrant.name, entrant.least_s);
    for (const auto& block : entrant.blocks) {
      if (failed && !block.empty()) return fmt::format("{} failed and has turns", entrant.name);
      if (!std::ranges::all_of(block, is_time)) return fmt::format("a turn of {} has no time", entrant.name);
    }
  }
  std::ranges::sort(recipes);
  if (std::ranges::adjacent_find(recipes) != recipes.end()) return "a recipe is twice in one race";
  if (!std::ranges::binary_search(recipes, stored.race.incumbent)) return "the incumbent is no entrant of its race";
  return std::nullopt;
}

RaceRecord& race_in(std::vector<StoredRace>& races, const TuneRun& run, const std::string& problem) {
  // From the end: rows of a race usually follow one another.
  for (auto stored = races.rbegin(); stored != races.rend(); ++stored)
    if (stored->race.problem == problem && stored->run.uuid == run.uuid) return stored->race;
  races.push_back({run, {.problem = problem, .line = {}, .incumbent = {}, .entrants = {}}});
  return races.back().race;
}

void set_problem(ForeignSample& sample, const GemmProblem& problem, const GemmArguments& arguments) {
  if (const Status valid = validate(problem); !valid) {
    sample.line = valid.error().message;
    return;
  }
  const GemmProblem raced = derived(problem, arguments);
  sample.problem = identity_of(raced);
  sample.line = to_line(raced, kSweepSeed);
}

void sort_races(std::vector<StoredRace>& races) {
  for (StoredRace& stored : races) std::ranges::sort(stored.race.entrants, {}, &Entrant::recipe);
  std::ranges::sort(races, [](const StoredRace& a, const StoredRace& b) {
    return std::tie(a.run.started, a.run.uuid, a.race.problem) < std::tie(b.run.started, b.run.uuid, b.race.problem);
  });
}

}  // namespace tilesmith::formats
