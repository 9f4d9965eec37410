#include "cli/logged_problems.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilesmith::cli {
namespace {

/// Where a problem begins in the line; npos: nowhere.
std::size_t begin_of_problem(std::string_view line) {
  std::size_t begin = std::string_view::npos;
  for_each_operation([&]<class Op>(Op) {
    const std::string start = std::string(Op::kName) + " -";
    for (std::size_t at = line.find(start); at != std::string_view::npos; at = line.find(start, at + 1))
      if (at == 0 || std::string_view(" \t\"'`[(").find(line[at - 1]) != std::string_view::npos) {
        begin = std::min(begin, at);
        break;
      }
  });
  return begin;
}

/// Without the words that say how a run ran (RunSettings::typed).
std::string without_settings(std::string_view text) {
  constexpr std::string_view kFlags[] = {"--verify", "--keep-wrong", "--no-time", "--no-build", "--json"};
  constexpr std::string_view kWithValue[] = {"--device", "--threads", "--kernel", "--determinism"};
  std::string out;
  bool skips = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view name = word.substr(0, word.find('='));
    if (skips) {
      skips = false;
    } else if (std::ranges::find(kWithValue, name) != std::end(kWithValue)) {
      skips = name == word;
    } else if (std::ranges::find(kFlags, word) == std::end(kFlags)) {
      out += (out.empty() ? "" : " ") + std::string(word);
    }
  }
  return out;
}

}  // namespace

LoggedProblems problems_in_log(std::string_view text, std::string_view origin) {
  LoggedProblems found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t begin = begin_of_problem(line);
    if (begin == std::string_view::npos) continue;
    line.remove_prefix(begin);
    line = line.substr(0, std::min(line.find_first_of("\"'`\r\t])"), line.find("  ")));
    while (line.ends_with(' ')) line.remove_suffix(1);
    auto call = parse_line(without_settings(line));
    if (!call)
      found.refused.push_back(fmt::format("{}:{}: {}", origin, number, call.error().message));
    else if (std::ranges::find(found.calls, *call) == found.calls.end())
      found.calls.push_back(std::move(*call));
  }
  return found;
}

}  // namespace tilesmith::cli
