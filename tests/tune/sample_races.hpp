// Races as a database holds them, made by hand.
#pragma once

#include "tune/database.hpp"

namespace tilesmith::testing {

inline TuneRun sample_run(char letter, std::string started, std::string device_class = "x86_64_v4;threads=2") {
  return {.uuid = std::string(32, letter),
          .device_class = std::move(device_class),
          .device = "a machine",
          .started = std::move(started),
          .program = "0.1.0",
          .compiler = "g++ 12",
          .driver = ""};
}

/// Recipes 1, 2, ... with these seconds in every turn of both blocks; recipe 1 is the incumbent. 0: it failed.
inline RaceRecord sample_race(std::string problem, const std::vector<double>& seconds, std::uint64_t incumbent = 1) {
  RaceRecord race{.problem = problem, .line = "line of " + problem, .incumbent = {0, incumbent}, .entrants = {}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    Entrant entrant{
        .recipe = {0, i + 1}, .name = "recipe " + std::to_string(i + 1), .failure = {}, .least_s = seconds[i]};
    if (seconds[i] > 0)
      entrant.blocks = {std::vector<double>(4, seconds[i]), std::vector<double>(4, seconds[i])};
    else
      entrant.failure = "killed by signal 11 (Segmentation fault)";
    race.entrants.push_back(std::move(entrant));
  }
  return race;
}

}  // namespace tilesmith::testing
