// One problem is one line of text: what `tilesmith run` takes as options, what `run` and `bench` print to repeat a
// result, and what files of test cases hold.
//
//   attention_fwd --batch 2 --heads-q 16 --heads-kv 4 --seqlen-q 512 --seqlen-k 1024 --head-dim-qk 128 --dtype bf16
//   gemm -m 256 -n 512 -k 1024 --dtype bf16 --epilogue bias,gelu
//
// Options come from the fields of the problem and of the call's numbers: a field has the option of its name
// (--group-size) unless its operation's table (problem/<operation>/options.cpp) names another, or joins several fields
// in one option (--window 3,4). What is not given has its usual value, which may depend on what is given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/lasting.hpp"
#include "base/nearest.hpp"
#include "problem/field_text.hpp"
#include "problem/operations.hpp"

namespace tilesmith {

/// A problem and the numbers of a call of it on random inputs: all that is needed to repeat a run.
template <class Op>
struct RandomCall {
  using Operation = Op;
  typename Op::Problem problem;
  typename Op::Numbers numbers;

  friend bool operator==(const RandomCall&, const RandomCall&) = default;
};

using AnyRandomCall = VariantOfOperations<RandomCall>;

/// How an option is followed by its value: not at all, by one word, by two numbers or by any number of them with commas
/// between.
enum class OptionForm : std::uint8_t { flag, value, pair, list };

template <class Op>
struct ProblemOption {
  std::vector<std::string> names{};  ///< "--group-size", "--scale-depth": lines have the first
  std::string about{};               ///< for people
  OptionForm form = OptionForm::value;
  std::string group{};                ///< the heading that help shows it under
  bool always = false;                ///< lines have it, even at its usual value
  std::vector<std::string> fields{};  ///< what it sets
  /// The call's value as text, empty for a flag; nothing where the option would not be given.
  std::function<std::optional<std::string>(const RandomCall<Op>&)> text{};
  std::function<Status(RandomCall<Op>&, std::string_view)> read{};

  [[nodiscard]] const std::string& name() const { return names.front(); }
};

/// An option that was given, by the first of its names, and its value.
struct GivenOption {
  std::string name;
  std::string text;
};

/// Which fields the given options set, while usual values are filled in.
class GivenFields {
 public:
  explicit GivenFields(std::vector<std::string> fields) : fields_(std::move(fields)) {}
  [[nodiscard]] bool has(std::string_view field) const;

 private:
  std::vector<std::string> fields_;
};

/// What an operation says of its line: a specialisation for each row.
///
///   static std::vector<ProblemOption<Op>> options()         its table; fields that it does not mention are added
///   static Status complete(RandomCall<Op>&, const GivenFields&)
///                                                           sets what is not given and what follows from the rest
///   static Op::Numbers usual_numbers(const Op::Problem&)    numbers that fit a problem of which no more is known
template <class Op>
struct Line;

template <>
struct Line<AttentionFwd> {
  [[nodiscard]] static std::vector<ProblemOption<AttentionFwd>> options();
  [[nodiscard]] static Status complete(RandomCall<AttentionFwd>& call, const GivenFields& given);
  [[nodiscard]] static AttentionNumbers usual_numbers(const AttentionProblem& problem);
};

template <>
struct Line<Gemm> {
  [[nodiscard]] static std::vector<ProblemOption<Gemm>> options();
  [[nodiscard]] static Status complete(RandomCall<Gemm>& call, const GivenFields& given);
  [[nodiscard]] static GemmNumbers usual_numbers(const GemmProblem& problem);
};

template <>
struct Line<AttentionBwd> {
  [[nodiscard]] static std::vector<ProblemOption<AttentionBwd>> options();
  [[nodiscard]] static Status complete(RandomCall<AttentionBwd>& call, const GivenFields& given);
  [[nodiscard]] static AttentionNumbers usual_numbers(const AttentionBackwardProblem& problem);
};

template <>
struct Line<Conv> {
  [[nodiscard]] static std::vector<ProblemOption<Conv>> options();
  [[nodiscard]] static Status complete(RandomCall<Conv>& call, const GivenFields& given);
  [[nodiscard]] static ConvNumbers usual_numbers(const ConvProblem& problem);
};

/// Every option of an operation's problems, in the order of its lines.
template <class Op>
[[nodiscard]] const std::vector<ProblemOption<Op>>& problem_options() {
  static const std::vector<ProblemOption<Op>>& options = lasting(Line<Op>::options());
  return options;
}

template <class Op>
[[nodiscard]] std::unexpected<Error> unknown_option(std::string_view name) {
  std::vector<std::string> known;
  for (const ProblemOption<Op>& option : problem_options<Op>())
    known.insert(known.end(), option.names.begin(), option.names.end());
  return fail(ErrorCode::invalid_argument, fmt::format("{} has no option {}", Op::kName, name.substr(0, 64)),
              did_you_mean(name, known));
}

/// The option of this name; null when there is none.
template <class Op>
[[nodiscard]] const ProblemOption<Op>* find_option(std::string_view name) {
  for (const ProblemOption<Op>& option : problem_options<Op>())
    if (std::ranges::find(option.names, name) != option.names.end()) return &option;
  return nullptr;
}

/// The call that the options describe. Errors: invalid_argument, an unknown option or a wrong value; those of
/// validate().
template <class Op>
[[nodiscard]] Result<RandomCall<Op>> read_call(const std::vector<GivenOption>& given) {
  RandomCall<Op> call;
  std::vector<std::string> fields;
  for (const auto& [name, text] : given) {
    const ProblemOption<Op>* option = find_option<Op>(name);
    if (option == nullptr) return unknown_option<Op>(name);
    TS_TRY(option->read(call, text));
    fields.insert(fields.end(), option->fields.begin(), option->fields.end());
  }
  TS_TRY(Line<Op>::complete(call, GivenFields(std::move(fields))));
  return call;
}

/// The options that describe the call: those without which it would be another, and a few that people look for.
template <class Op>
[[nodiscard]] std::vector<GivenOption> options_of(const RandomCall<Op>& call) {
  std::vector<GivenOption> words;
  for (const ProblemOption<Op>& option : problem_options<Op>())
    if (auto text = option.text(call)) words.push_back({option.name(), std::move(*text)});
  for (std::size_t i = 0; i < words.size();) {
    std::vector<GivenOption> without = words;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    const auto other = read_call<Op>(without);
    if (other && *other == call && !find_option<Op>(words[i].name)->always)
      words = std::move(without);
    else
      ++i;
  }
  return words;
}

/// " --batch 2 --window=-1,4": options as a command line has them.
[[nodiscard]] std::string text_of(const std::vector<GivenOption>& options);

/// A call that shows the problem, with its usual numbers.
template <OperationProblem P>
[[nodiscard]] RandomCall<typename OperationOf<P>::type> usual_call(const P& problem, std::uint64_t seed = 0) {
  RandomCall<typename OperationOf<P>::type> call{problem, Line<typename OperationOf<P>::type>::usual_numbers(problem)};
  call.numbers.seed = seed;
  return call;
}

/// "gemm -m 256 -n 512 -k 1024 --dtype bf16"
template <class Op>
[[nodiscard]] std::string to_line(const RandomCall<Op>& call) {
  return std::string(Op::kName) + text_of(options_of(call));
}
template <OperationProblem P>
[[nodiscard]] std::string to_line(const P& problem, std::uint64_t seed = 0) {
  return to_line(usual_call(problem, seed));
}
[[nodiscard]] std::string to_line(const AnyRandomCall& call);
[[nodiscard]] std::string to_line(const AnyProblem& problem, std::uint64_t seed = 0);

/// The inverse of to_line. Errors: invalid_argument, which names the word and what would be right; those of validate().
[[nodiscard]] Result<AnyRandomCall> parse_line(std::string_view line);

/// The calls of a text of lines; empty lines and what follows a # are skipped. Each with the number of its line, from
/// 1. `origin` begins error messages, which name the line.
struct LineOfFile {
  std::size_t number = 0;
  AnyRandomCall call;
};
[[nodiscard]] Result<std::vector<LineOfFile>> parse_lines(std::string_view text, std::string_view origin);

}  // namespace tilesmith
