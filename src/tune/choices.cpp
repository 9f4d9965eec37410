#include "tune/choices.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "tune/race.hpp"

namespace tilesmith {
namespace {

const Entrant* find(const RaceRecord& race, Key128 recipe) {
  const auto found = std::ranges::find(race.entrants, recipe, &Entrant::recipe);
  return found == race.entrants.end() ? nullptr : &*found;
}

bool is_finalist(const Entrant* entrant) {
  return entrant != nullptr && entrant->failure.empty() && !entrant->blocks[0].empty() && !entrant->blocks[1].empty();
}

/// The geometric mean of a finalist's times in the blocks; of others the least time that was seen.
double seconds_of(const Entrant& entrant) {
  double logs = 0;
  std::size_t n = 0;
  for (const auto& block : entrant.blocks)
    for (const double seconds : block) logs += std::log(seconds), ++n;
  return n > 0 ? std::exp(logs / static_cast<double>(n)) : entrant.least_s;
}

struct Chosen {
  Key128 recipe;
  double seconds = 0;
  double gain = 1;
  bool is_confirmed = false;
};

/// The choice behind a race, before which `before` was chosen.
std::optional<Chosen> behind(const RaceRecord& race, const std::optional<Chosen>& before) {
  const Key128 held = before && is_finalist(find(race, before->recipe)) ? before->recipe : race.incumbent;
  const Entrant* holder = find(race, held);
  if (holder == nullptr || !holder->failure.empty()) {
    // What was chosen does not run any more: the best that does. A race without any chooses nothing.
    const Entrant* best = nullptr;
    for (const Entrant& entrant : race.entrants)
      if (entrant.failure.empty() && entrant.least_s > 0 &&
          (best == nullptr || seconds_of(entrant) < seconds_of(*best)))
        best = &entrant;
    if (best == nullptr) return before;
    return Chosen{.recipe = best->recipe, .seconds = seconds_of(*best)};
  }
  Chosen chosen{.recipe = held, .seconds = seconds_of(*holder)};
  if (before && before->recipe == held) chosen.gain = before->gain, chosen.is_confirmed = before->is_confirmed;
  for (const Entrant& entrant : race.entrants) {
    if (entrant.recipe == held || !is_finalist(&entrant) || !is_finalist(holder)) continue;
    double gain = 1;
    bool better = true;
    for (const std::size_t block : {0u, 1u}) {
      const PairedRatio paired = paired_ratio(entrant.blocks[block], holder->blocks[block]);
      better = better && is_better(paired, kLeastGain);
      gain /= std::sqrt(paired.ratio);
    }
    if (better && seconds_of(entrant) < chosen.seconds)
      chosen = {.recipe = entrant.recipe, .seconds = seconds_of(entrant), .gain = gain, .is_confirmed = true};
  }
  return chosen;
}

}  // namespace

TuningFile choices_of(std::span<const StoredRace> races) {
  struct Found {
    std::optional<Chosen> chosen;
    std::string line;
    std::map<Key128, std::string> names;
  };
  std::map<std::pair<std::string, std::string>, Found> found;
  for (const StoredRace& stored : races) {
    Found& of = found[{stored.run.device_class, stored.race.problem}];
    of.line = stored.race.line;
    for (const Entrant& entrant : stored.race.entrants) of.names[entrant.recipe] = entrant.name;
    of.chosen = behind(stored.race, of.chosen);
  }
  TuningFile file;
  for (const auto& [key, of] : found)
    if (of.chosen)
      file.choices.push_back({.device_class = key.first,
                              .problem = key.second,
                              .line = of.line,
                              .recipe = of.chosen->recipe,
                              .name = of.names.at(of.chosen->recipe),
                              .seconds = of.chosen->seconds,
                              .gain = of.chosen->gain,
                              .is_confirmed = of.chosen->is_confirmed});
  return file;
}

Result<TuningFile> publish_choices(const Database& database, const std::filesystem::path& to,
                                   const std::string& device_class) {
  TS_ASSIGN(const std::vector<StoredRace> races, database.races(device_class));
  TuningFile file = choices_of(races);
  if (file.choices.empty()) return fail(ErrorCode::not_found, "there is nothing to publish", "tilesmith tune measures");
  TS_TRY(write_file_atomic(to, file.to_text()));
  return file;
}

}  // namespace tilesmith
