// Our own CSV: a line for each recipe of each race, behind two lines that say which version it is.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/csv.hpp"
#include "tune/formats/formats.hpp"
#include "vocabulary/canonical.hpp"

namespace tilesmith::formats {
namespace {

constexpr std::string_view kColumns =
    "run,device_class,device,started,program,compiler,driver,problem,line,incumbent,recipe,name,failure,least_s,"
    "block_0_s,block_1_s";
constexpr std::size_t kColumnCount = 16;
constexpr const char* kCsvHint =
    "a file that tilesmith db export --format csv wrote, or --format with the name of what it is";

std::string first_line() {
  return fmt::format("# tilesmith_database: 1; keys: {}\n", kCanonicalVersion);
}

/// The shortest text that reads back as the same number.
std::string text_of(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

std::optional<std::vector<double>> numbers_of(std::string_view text) {
  std::vector<double> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    double value = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + end, value);
    if (error != std::errc() || last != text.data() + end) return std::nullopt;
    out.push_back(value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string write_csv(const std::vector<StoredRace>& races) {
  std::string out = first_line() + std::string(kColumns) + "\n";
  for (const auto& [run, race] : races)
    for (const Entrant& entrant : race.entrants) {
      const std::array<std::string, kColumnCount> cells{run.uuid,
                                                        run.device_class,
                                                        run.device,
                                                        run.started,
                                                        run.program,
                                                        run.compiler,
                                                        run.driver,
                                                        race.problem,
                                                        race.line,
                                                        race.incumbent.hex(),
                                                        entrant.recipe.hex(),
                                                        entrant.name,
                                                        entrant.failure,
                                                        fmt::format("{}", entrant.least_s),
                                                        text_of(entrant.blocks[0]),
                                                        text_of(entrant.blocks[1])};
      for (std::size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + csv_cell(cells[i]);
      out += '\n';
    }
  return out;
}

Result<ExchangeContent> read_csv(std::string_view origin, std::string_view text) {
  const std::string first = first_line();
  if (!text.starts_with("# tilesmith_database: 1; keys: "))
    return unreadable(origin, "this is no exported database", kCsvHint);
  if (!text.starts_with(first))
    return unreadable(origin, fmt::format("it does not begin with {}", first.substr(0, first.size() - 1)),
                      "the version of tilesmith that wrote it: its keys name no recipe of this one");
  std::size_t at = first.size();
  if (const std::size_t header = text.find('\n', at);
      header == std::string_view::npos || text.substr(at, header - at) != kColumns)
    return unreadable(origin, "its second line does not name our columns", kCsvHint);
  at += kColumns.size() + 1;
  ExchangeContent content;
  for (std::size_t number = 1; at < text.size(); ++number) {
    const auto wrong = [&](std::string what) {
      return unreadable(origin, fmt::format("row {}: {}", number, what), kCsvHint);
    };
    const auto cells = next_csv_record(text, at);
    if (!cells) return wrong("it has no end: the file is torn");
    if (cells->size() != kColumnCount)
      return wrong(fmt::format("it has {} cells, and the line of names {}", cells->size(), kColumnCount));
    const auto& c = *cells;
    const auto least = numbers_of(c[13]), block_0 = numbers_of(c[14]), block_1 = numbers_of(c[15]);
    if (!least || least->size() != 1 || !block_0 || !block_1) return wrong("a time is no number");
    const auto incumbent = Key128::parse(c[9]), recipe = Key128::parse(c[10]);
    if (!incumbent || !recipe) return wrong("a recipe's key is not 32 hexadecimal digits");
    RaceRecord& race = race_in(content.races, {c[0], c[1], c[2], c[3], c[4], c[5], c[6]}, c[7]);
    race.line = c[8];
    race.incumbent = *incumbent;
    race.entrants.push_back({.recipe = *recipe,
                             .name = c[11],
                             .failure = c[12],
                             .least_s = least->front(),
                             .blocks = {std::move(*block_0), std::move(*block_1)}});
  }
  for (const StoredRace& stored : content.races)
    if (const auto flaw = flaw_of(stored)) return unreadable(origin, *flaw, kCsvHint);
  return content;
}

}  // namespace tilesmith::formats
