#include "sweep/axes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <unordered_set>

#include "problem/line.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kMostProblems = 1'000'000;

/// An option and its values.
struct Axis {
  std::string option;
  std::vector<std::string> values;
};

bool read_whole(std::string_view text, std::int64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size();
}

/// "16:128:16" and "1:1024:*2"; false for what is no range.
bool expand_range(std::string_view text, std::vector<std::string>& values) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  std::string_view step_text = second == std::string_view::npos ? "1" : text.substr(second + 1);
  const bool factor = step_text.starts_with('*');
  if (factor) step_text.remove_prefix(1);
  std::int64_t from = 0, to = 0, step = 0;
  const std::size_t length = second == std::string_view::npos ? second : second - first - 1;
  if (!read_whole(text.substr(0, first), from) || !read_whole(text.substr(first + 1, length), to) ||
      !read_whole(step_text, step))
    return false;
  if (from > to || step < (factor ? 2 : 1) || (factor && from < 1)) return false;
  if (!factor && (to - from) / step >= kMostProblems) return false;
  for (std::int64_t value = from; value <= to;) {
    values.push_back(std::to_string(value));
    if (factor ? __builtin_mul_overflow(value, step, &value) : __builtin_add_overflow(value, step, &value)) break;
  }
  return true;
}

template <class Op>
Result<std::vector<Axis>> axes_of(const std::vector<std::string>& words) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const ProblemOption<Op>* option = find_option<Op>(name);
    if (option == nullptr) return unknown_option<Op>(name);
    std::vector<std::string> values;
    if (option->form == OptionForm::flag) {
      if (equals != std::string_view::npos) return wrong_value(name, word.substr(equals + 1), "no value");
      values.emplace_back();
    } else {
      if (equals == std::string_view::npos && i + 1 == words.size())
        return fail(ErrorCode::invalid_argument, fmt::format("{} has no value", name), option->about);
      const std::string_view text = equals != std::string_view::npos ? word.substr(equals + 1) : words[++i];
      if (option->form == OptionForm::value) {
        TS_ASSIGN(values, axis_values(name, text));
      } else {
        values.emplace_back(text);
      }
    }
    const auto same = std::ranges::find(axes, option->name(), &Axis::option);
    if (same == axes.end())
      axes.push_back({option->name(), std::move(values)});
    else
      same->values.insert(same->values.end(), values.begin(), values.end());
  }
  return axes;
}

/// Problems, each once.
template <class Problem>
class Collection {
 public:
  explicit Collection(Shard shard) : shard_(shard) {}
  void add(const Problem& problem) {
    const std::string identity = identity_of(problem);
    if (shard_.has(identity) && seen_.insert(identity).second) problems_.push_back(problem);
  }
  [[nodiscard]] std::vector<Problem> take() && { return std::move(problems_); }

 private:
  Shard shard_;
  std::unordered_set<std::string> seen_;
  std::vector<Problem> problems_;
};

template <class Op>
Status add_product(const std::vector<std::string>& words, Collection<typename Op::Problem>& into) {
  if (words.empty()) return {};
  TS_ASSIGN(const std::vector<Axis> axes, axes_of<Op>(words));
  std::int64_t count = 1;
  for (const Axis& axis : axes)
    if (__builtin_mul_overflow(count, static_cast<std::int64_t>(axis.values.size()), &count) || count > kMostProblems)
      return fail(ErrorCode::invalid_argument, fmt::format("the options describe more than {} problems", kMostProblems),
                  "fewer values, or several sweeps");
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<GivenOption> given(axes.size());
    std::int64_t rest = index;
    for (std::size_t i = axes.size(); i-- > 0;) {  // the last axis runs fastest
      const auto size = static_cast<std::int64_t>(axes[i].values.size());
      given[i] = {axes[i].option, axes[i].values[static_cast<std::size_t>(rest % size)]};
      rest /= size;
    }
    const auto call = read_call<Op>(given);
    if (!call && count == 1) return std::unexpected(call.error());
    if (!call) return std::unexpected(call.error().in(fmt::format("{}{}", Op::kName, text_of(given))));
    into.add(call->problem);
  }
  return {};
}

template <class Op>
Status add_lines(const std::vector<std::string>& lines, Collection<typename Op::Problem>& into) {
  for (const std::string& line : lines) {
    const bool named = line.find_first_not_of(" \t") != std::string::npos && line[line.find_first_not_of(" \t")] != '-';
    TS_ASSIGN(const AnyRandomCall call, parse_line(named ? line : fmt::format("{} {}", Op::kName, line)));
    const auto* own = std::get_if<RandomCall<Op>>(&call);
    if (own == nullptr)
      return fail(ErrorCode::invalid_argument, fmt::format("--problem '{}' is no {}", line, Op::kName),
                  "problems of one operation");
    into.add(own->problem);
  }
  return {};
}

template <class Op>
bool has_all(const ProblemWords& given) {
  for (const std::string& word : given.words)
    if (word.starts_with('-') && word.size() > 1 && (word[1] < '0' || word[1] > '9') &&
        find_option<Op>(std::string_view(word).substr(0, word.find('='))) == nullptr)
      return false;
  for (const std::string& line : given.lines) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(begin, line.find_first_of(" \t", begin) - begin);
    if (!name.starts_with('-') && name != Op::kName) return false;
  }
  return true;
}

/// The operation that is meant: the one that was named, else the first that has all of the options.
RowChoice meant_operation(const ProblemWords& given) {
  RowChoice meant = given.operation.value_or(RowChoice());
  if (!given.operation)
    any_operation([&]<class Op>(Op) {
      if (!has_all<Op>(given)) return false;
      meant = RowChoice::of<Op>();
      return true;
    });
  return meant;
}

}  // namespace

Result<std::vector<std::string>> axis_values(std::string_view option, std::string_view text) {
  std::vector<std::string> values;
  if (text.empty()) return wrong_value(option, text, "a value, several with commas between, or START:END:STEP");
  TS_TRY(for_each_part(text, [&](std::string_view part) -> Status {
    if (part.empty()) return wrong_value(option, text, "a value between any two commas");
    if (part.find(':') == std::string_view::npos) {
      values.emplace_back(part);
      return {};
    }
    if (expand_range(part, values)) return {};
    return wrong_value(option, part, "START:END:STEP or START:END:*FACTOR, whole numbers, START not above END");
  }));
  return values;
}

Result<BenchProblems> problems_of_words(const ProblemWords& given, Shard shard) {
  const RowChoice operation = meant_operation(given);
  Result<BenchProblems> out = fail(ErrorCode::unsupported, fmt::format("no kernel of {} runs here", operation.name()),
                                   "--op attention_fwd, attention_bwd, gemm or conv");
  any_operation([&]<class Op>(Op) {
    if (!operation.is<Op>()) return false;
    out = [&]() -> Result<BenchProblems> {
      Collection<typename Op::Problem> problems(shard);
      TS_TRY(add_product<Op>(given.words, problems));
      TS_TRY(add_lines<Op>(given.lines, problems));
      return BenchProblems(std::move(problems).take());
    }();
    return true;
  });
  return out;
}

}  // namespace tilesmith
