// The options of an operation's problems on a verb, as the operation's table has them (problem/line.hpp).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "cli/dimension.hpp"
#include "problem/line.hpp"
#include "trial/case.hpp"

namespace tilesmith::cli {

template <class Op>
class ProblemArguments {
 public:
  void add_to(CLI::App& verb) {
    for (const ProblemOption<Op>& option : problem_options<Op>()) {
      Argument& argument = arguments_.emplace_back(Argument{.option = &option});
      const std::string names = fmt::to_string(fmt::join(option.names, ","));
      CLI::Option* added = nullptr;
      switch (option.form) {
        case OptionForm::flag:
          added = verb.add_flag(names, argument.flag, option.about);
          break;
        case OptionForm::value:
          added = verb.add_option(names, argument.value, option.about);
          break;
        case OptionForm::pair:
          added = verb.add_option(names, argument.values, option.about)->delimiter(',')->expected(2);
          break;
        case OptionForm::list:
          added = verb.add_option(names, argument.values, option.about)->delimiter(',')->allow_extra_args(false);
          break;
      }
      added->group(option.group);
    }
  }

  /// What was typed.
  [[nodiscard]] std::vector<GivenOption> given() const {
    std::vector<GivenOption> out;
    for (const Argument& argument : arguments_) {
      if (argument.flag) out.push_back({argument.option->name(), ""});
      if (argument.value) out.push_back({argument.option->name(), *argument.value});
      if (!argument.values.empty())
        out.push_back({argument.option->name(), fmt::to_string(fmt::join(argument.values, ","))});
    }
    return out;
  }

 private:
  struct Argument {
    const ProblemOption<Op>* option = nullptr;
    bool flag = false;
    std::optional<std::string> value{};
    std::vector<std::string> values{};
  };

  std::list<Argument> arguments_;  // CLI11 keeps the addresses
};

/// A call, and the inputs that are read from files instead of being random.
template <class Op>
struct CallOnFiles {
  RandomCall<Op> call;
  typename Case<Op>::Inputs inputs;
};

/// The value that an option was given; null when it was not.
[[nodiscard]] inline const std::string* find_given(const std::vector<GivenOption>& given, std::string_view name) {
  for (const GivenOption& option : given)
    if (option.name == name) return &option.text;
  return nullptr;
}

/// Adds an option that was not given.
inline void give_unless_given(std::vector<GivenOption>& given, const std::string& name, const std::string& text = "") {
  if (find_given(given, name) == nullptr) given.push_back({name, text});
}

/// A size of the problem, which an option and the shapes of files tell.
struct SizeOption {
  std::string option;  ///< "--heads-q"
  Dimension dimension;

  SizeOption(const char* name, std::string option_name) : option(std::move(option_name)), dimension(name) {}
  /// Reads the option, where it is given.
  [[nodiscard]] Status read(const std::vector<GivenOption>& given) {
    const std::string* text = find_given(given, option);
    if (text == nullptr) return {};
    std::int64_t value = 0;
    TS_TRY(read_value_text(option, *text, value));
    return dimension.tell(value, option);
  }
  /// Adds the option where a file alone told the size.
  void give(std::vector<GivenOption>& given) const {
    if (const auto value = dimension.value()) give_unless_given(given, option, std::to_string(*value));
  }
};

}  // namespace tilesmith::cli
