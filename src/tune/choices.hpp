// From what races measured to what is chosen: a pure function of the database's rows, so the same rows give the same
// choices wherever and whenever they are read, and a merge of databases chooses as one.
//
// Races of a problem on a class of devices are read oldest first. What was chosen when the first began is the first
// choice; a race replaces the choice by a finalist that was better in both of its blocks, measured in turns with the
// choice itself (or with the race's incumbent, where the choice was not among its finalists).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "choose/tuning_file.hpp"
#include "tune/database.hpp"

namespace tilesmith {

/// At least so much better, and by three standard errors: RaceOptions::least_gain.
inline constexpr double kLeastGain = 0.01;

/// Races in the order of Database::races.
[[nodiscard]] TuningFile choices_of(std::span<const StoredRace> races);

/// Writes the database's choices, of one class of devices or of all, to a file that dispatchers read; a reader never
/// sees half of it. Errors: not_found, when there are none; io.
[[nodiscard]] Result<TuningFile> publish_choices(const Database& database, const std::filesystem::path& to,
                                                 const std::string& device_class = {});

}  // namespace tilesmith
