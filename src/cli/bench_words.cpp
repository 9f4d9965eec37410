#include "cli/bench_words.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/nearest.hpp"
#include "problem/line.hpp"

namespace tilesmith::cli {
namespace {

/// The form of the option in the first operation that has it.
std::optional<OptionForm> form_of(std::string_view name) {
  std::optional<OptionForm> form;
  any_operation([&]<class Op>(Op) {
    const ProblemOption<Op>* option = find_option<Op>(name);
    if (option != nullptr) form = option->form;
    return option != nullptr;
  });
  return form;
}

std::vector<std::string> known_options(const CLI::App& verb) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb.get_options()) known.push_back(option->get_name());
  for_each_operation([&]<class Op>(Op) {
    for (const ProblemOption<Op>& option : problem_options<Op>())
      known.insert(known.end(), option.names.begin(), option.names.end());
  });
  return known;
}

}  // namespace

Result<BenchWords> bench_words(const CLI::App& verb) {
  BenchWords out;
  const std::vector<std::string> words = verb.remaining();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-')) {
      if (!out.config.empty())
        return fail(ErrorCode::invalid_argument, fmt::format("two sweep files: {} and {}", out.config, word), "one");
      out.config = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto form = form_of(name);
    if (!form) {
      const std::string near = did_you_mean(name, known_options(verb));
      return fail(ErrorCode::invalid_argument, fmt::format("{} is no option of bench or of a problem", name),
                  near.empty() ? "tilesmith bench --help, tilesmith run gemm --help" : near);
    }
    out.problem.push_back(word);
    if (*form != OptionForm::flag && equals == std::string::npos && i + 1 < words.size())
      out.problem.push_back(words[++i]);
  }
  return out;
}

}  // namespace tilesmith::cli
