#include "tune/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/nearest.hpp"
#include "tune/formats/formats.hpp"

namespace tilesmith {
namespace {

Result<std::string> write_problem_lines(const std::vector<StoredRace>& races,
                                        const std::vector<ForeignSource>& foreign) {
  std::string out;
  std::set<std::string> written;
  const auto add = [&](const std::string& problem, const std::string& line) {
    if (!problem.empty() && written.insert(problem).second) out += line + "\n";
  };
  for (const StoredRace& stored : races) add(stored.race.problem, stored.race.line);
  for (const ForeignSource& source : foreign)
    for (const ForeignSample& sample : source.samples) add(sample.problem, sample.line);
  return out;
}

}  // namespace

const std::vector<std::string>& exchange_format_names() {
  static const std::vector<std::string> names{"json", "csv", "t4", "tunableop", "inductor", "untuned", "lines"};
  return names;
}

Result<ExchangeFormat> parse_exchange_format(std::string_view name) {
  const auto& names = exchange_format_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return fail(ErrorCode::invalid_argument, fmt::format("there is no format {}", name.substr(0, 64)),
                did_you_mean(name, names));
  return static_cast<ExchangeFormat>(found - names.begin());
}

Result<ExchangeContent> read_exchange(ExchangeFormat format, std::string_view origin, std::string_view text) {
  switch (format) {
    case ExchangeFormat::json:
      return formats::read_json(origin, text);
    case ExchangeFormat::csv:
      return formats::read_csv(origin, text);
    case ExchangeFormat::t4:
      return formats::read_t4(origin, text);
    case ExchangeFormat::tunableop:
      return formats::read_tunableop(origin, text);
    case ExchangeFormat::inductor:
      return formats::read_inductor(origin, text);
    case ExchangeFormat::untuned:
      // TunableOp writes and reads both with the same lines.
      return formats::read_tunableop(origin, text);
    case ExchangeFormat::lines:
      break;
  }
  return fail(ErrorCode::unsupported, "lines are problems without measurements", "tune --shapes reads them");
}

Result<std::string> write_exchange(ExchangeFormat format, const std::vector<StoredRace>& races,
                                   const std::vector<ForeignSource>& foreign) {
  std::string out;
  switch (format) {
    case ExchangeFormat::json:
      return formats::write_json(races, foreign);
    case ExchangeFormat::csv:
      return formats::write_csv(races);
    case ExchangeFormat::t4:
      return formats::write_t4(races);
    case ExchangeFormat::tunableop: {
      TS_ASSIGN(out, formats::write_tunableop(foreign));
      break;
    }
    case ExchangeFormat::inductor:
      out = formats::write_inductor(foreign);
      break;
    case ExchangeFormat::untuned:
      out = formats::write_untuned(races);
      break;
    case ExchangeFormat::lines: {
      TS_ASSIGN(out, write_problem_lines(races, foreign));
      break;
    }
  }
  if (out.empty())
    return fail(ErrorCode::not_found,
                fmt::format("there is nothing to write as {}", exchange_format_names()[static_cast<int>(format)]),
                "--format json holds everything");
  return out;
}

}  // namespace tilesmith
