// One reader and one writer for each format of tune/exchange.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilesmith/gemm.hpp"
#include "tune/exchange.hpp"

namespace tilesmith::formats {

[[nodiscard]] Result<ExchangeContent> read_json(std::string_view origin, std::string_view text);
[[nodiscard]] std::string write_json(const std::vector<StoredRace>& races, const std::vector<ForeignSource>& foreign);

[[nodiscard]] Result<ExchangeContent> read_csv(std::string_view origin, std::string_view text);
[[nodiscard]] std::string write_csv(const std::vector<StoredRace>& races);

[[nodiscard]] Result<ExchangeContent> read_t4(std::string_view origin, std::string_view text);
[[nodiscard]] std::string write_t4(const std::vector<StoredRace>& races);

[[nodiscard]] Result<ExchangeContent> read_tunableop(std::string_view origin, std::string_view text);
[[nodiscard]] Result<std::string> write_tunableop(const std::vector<ForeignSource>& foreign);
[[nodiscard]] std::string write_untuned(const std::vector<StoredRace>& races);

[[nodiscard]] Result<ExchangeContent> read_inductor(std::string_view origin, std::string_view text);
[[nodiscard]] std::string write_inductor(const std::vector<ForeignSource>& foreign);

// What the formats share.

[[nodiscard]] std::unexpected<Error> unreadable(std::string_view origin, std::string what, std::string hint);
/// The same where no row of a file is taken: why the first was refused, which names the file, or that there is `none`.
[[nodiscard]] std::unexpected<Error> unreadable(std::string_view origin, const std::vector<std::string>& refused,
                                                std::string_view none, std::string hint);
/// Text of strings that may not be UTF-8: those bytes become U+FFFD.
[[nodiscard]] std::string json_line(const nlohmann::json& value);
/// A race as read from a file: whether it can be one. What is wrong, or nothing.
[[nodiscard]] std::optional<std::string> flaw_of(const StoredRace& stored);
/// The race of this run and problem, added when it is new: files list recipes of a race one after another or apart.
[[nodiscard]] RaceRecord& race_in(std::vector<StoredRace>& races, const TuneRun& run, const std::string& problem);

/// A sample of the problem as tune would race it; one that validate() refuses has no problem of ours, and says why.
void set_problem(ForeignSample& sample, const GemmProblem& problem, const GemmArguments& arguments);
/// Sorted by what identifies them, as a database gives them, entrants by recipe.
void sort_races(std::vector<StoredRace>& races);

}  // namespace tilesmith::formats
