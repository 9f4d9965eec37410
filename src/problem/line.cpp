#include "problem/line.hpp"

#include <fmt/format.h>

namespace tilesmith {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

/// Options and their values: "--name value", "--name=value", "--flag".
template <class Op>
Result<std::vector<GivenOption>> given_options(const std::vector<std::string_view>& words) {
  std::vector<GivenOption> given;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string_view name = words[i].substr(0, equals);
    const ProblemOption<Op>* option = find_option<Op>(name);
    if (option == nullptr) return unknown_option<Op>(name);
    const auto is_same = [&](const GivenOption& other) { return other.name == option->name(); };
    if (std::ranges::any_of(given, is_same))
      return fail(ErrorCode::invalid_argument, fmt::format("{} is given twice", name), "once");
    std::string_view text;
    if (option->form == OptionForm::flag) {
      if (equals != std::string_view::npos) return wrong_value(name, words[i].substr(equals + 1), "no value");
    } else if (equals != std::string_view::npos) {
      text = words[i].substr(equals + 1);
    } else if (++i < words.size()) {
      text = words[i];
    } else {
      return fail(ErrorCode::invalid_argument, fmt::format("{} has no value", name), option->about);
    }
    given.push_back({option->name(), std::string(text)});
  }
  return given;
}

}  // namespace

bool GivenFields::has(std::string_view field) const {
  return std::ranges::find(fields_, field) != fields_.end();
}

std::string text_of(const std::vector<GivenOption>& options) {
  std::string out;
  for (const auto& [name, text] : options) {
    out += " " + name;
    if (!text.empty())
      out += (text.starts_with('-') ? "=" : " ") + text;  // what begins with - may be read as an option
  }
  return out;
}

std::string to_line(const AnyRandomCall& call) {
  return std::visit([](const auto& each) { return to_line(each); }, call);
}

std::string to_line(const AnyProblem& problem, std::uint64_t seed) {
  return std::visit([&](const auto& each) { return to_line(each, seed); }, problem);
}

Result<AnyRandomCall> parse_line(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.empty()) return fail(ErrorCode::invalid_argument, "an empty line", "an operation and its options");
  Result<AnyRandomCall> out = AnyRandomCall{};
  std::vector<std::string> known;
  const bool found = any_operation([&]<class Op>(Op) {
    known.emplace_back(Op::kName);
    if (words.front() != Op::kName) return false;
    out = [&]() -> Result<AnyRandomCall> {
      TS_ASSIGN(const std::vector<GivenOption> given, given_options<Op>(words));
      TS_ASSIGN(RandomCall<Op> call, read_call<Op>(given));
      return AnyRandomCall(std::move(call));
    }();
    return true;
  });
  if (!found)
    return fail(ErrorCode::invalid_argument, fmt::format("there is no operation '{}'", words.front().substr(0, 64)),
                did_you_mean(words.front(), known));
  return out;
}

Result<std::vector<LineOfFile>> parse_lines(std::string_view text, std::string_view origin) {
  std::vector<LineOfFile> out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view content = line.substr(0, line.find('#'));
    if (words_of(content).empty()) continue;
    auto call = parse_line(content);
    if (!call)
      return fail(call.error().code, fmt::format("{}:{}: {}", origin, number, call.error().message), call.error().hint);
    out.push_back({number, std::move(*call)});
  }
  return out;
}

}  // namespace tilesmith
