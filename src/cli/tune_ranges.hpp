// Options of tune whose values are ranges of sizes: -m 1:8192, --batch 1:16. Sizes are raced until those between them
// are trusted, or as many were raced as may be.
#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "cli/problem_arguments.hpp"
#include "tune/choices.hpp"
#include "tune/database.hpp"
#include "tune/size_boxes.hpp"
#include "tune/size_range.hpp"
#include "tune/tuner.hpp"

namespace tilesmith::cli {

struct RangeOption {
  std::size_t place = 0;  ///< of the option among the given
  SizeRange range;
};

/// Error: invalid_argument, for numbers with a colon that are no range.
[[nodiscard]] inline Result<std::vector<RangeOption>> ranges_in(const std::vector<GivenOption>& given) {
  std::vector<RangeOption> ranges;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& text = given[i].text;
    if (const auto range = SizeRange::parse(text))
      ranges.push_back({i, *range});
    else if (text.find(':') != std::string::npos && text.find_first_not_of("0123456789:-") == std::string::npos)
      return fail(ErrorCode::invalid_argument, fmt::format("{} {}: no range", given[i].name, text),
                  "LEAST:LARGEST, whole numbers from 1 on, as in -m 1:8192");
  }
  return ranges;
}

/// What the database has for a class of devices, and its recipes' names.
class MeasuredSoFar {
 public:
  Status read(const TuneOptions& options, std::string_view device_class) {
    TS_ASSIGN(const Database database, Database::open(options.database, Database::Mode::read));
    TS_ASSIGN(const std::vector<StoredRace> races, database.races(std::string(device_class)));
    file_ = choices_of(races);
    for (const TunedChoice& choice : file_.choices) names_[choice.recipe] = choice.name;
    return {};
  }

  [[nodiscard]] const TuningFile& file() const { return file_; }
  [[nodiscard]] const std::string& name(Key128 recipe) const { return names_.at(recipe); }

 private:
  TuningFile file_;
  std::map<Key128, std::string> names_;
};

/// The problem whose options have these numbers in the ranges' places.
template <class Op>
Result<typename Op::Problem> problem_at(std::vector<GivenOption> given, const std::vector<RangeOption>& ranges,
                                        const std::vector<std::int64_t>& numbers) {
  for (std::size_t i = 0; i < ranges.size(); ++i) given[ranges[i].place].text = std::to_string(numbers[i]);
  TS_ASSIGN(const RandomCall<Op> call, read_call<Op>(given));
  return BenchOperation<Op>::measured(call.problem);
}

/// One size that changes.
template <class Op>
class RangeTuning {
 public:
  RangeTuning(RangeOption option, std::vector<GivenOption> given) : option_(option), given_(std::move(given)) {}

  /// `tune_some` races the problems. Errors: invalid_argument, for an option that is no size that may change.
  template <class TuneSome>
  Status run(const TuneOptions& options, int most, TuneSome tune_some) {
    TS_ASSIGN(const SizedIdentity low, identity_at(option_.range.low));
    TS_ASSIGN(const SizedIdentity high, identity_at(option_.range.high));
    if (low.kind != high.kind || low.size != option_.range.low || high.size != option_.range.high)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} {}: no range", given_[option_.place].name, given_[option_.place].text),
                  "what may be a range is m of a GEMM and seqlen-k of attention");
    std::vector<std::int64_t> next = first_sizes(option_.range);
    for (std::size_t raced = 0; !next.empty() && raced < static_cast<std::size_t>(most);) {
      next.resize(std::min(next.size(), static_cast<std::size_t>(most) - raced));
      raced += next.size();
      std::vector<typename Op::Problem> problems;
      for (const std::int64_t size : next) {
        TS_ASSIGN(typename Op::Problem problem, problem_at<Op>(given_, {option_}, {size}));
        problems.push_back(std::move(problem));
      }
      TS_ASSIGN(const TuneSummary summary, tune_some(BenchProblems(std::move(problems))));
      TS_TRY(measured_.read(options, summary.device_class));
      intervals_ = intervals_of(sizes_of(measured_.file(), summary.device_class, high.kind), option_.range);
      const std::vector<std::int64_t> wanted = next_sizes(intervals_);
      if (wanted == next) break;  // they could not be raced
      next = wanted;
    }
    return {};
  }

  [[nodiscard]] nlohmann::json to_json() const {
    nlohmann::json out = nlohmann::json::array();
    for (const MeasuredInterval& each : intervals_)
      out.push_back({{"above", each.low},
                     {"below", each.high},
                     {"recipe", measured_.name(each.recipe)},
                     {"bound", each.bound},
                     {"trusted", is_trusted(each)}});
    return out;
  }

  void print() const {
    fmt::print("{} between\n", given_[option_.place].name);
    for (const MeasuredInterval& each : intervals_)
      fmt::print("{:>8} and {:<8} {}; bound {:.3f}{}\n", each.low, each.high, measured_.name(each.recipe), each.bound,
                 each.bound <= kMostBound ? ""
                 : is_trusted(each)       ? ", but its ends are near and agree"
                                          : ", not trusted: the policy decides");
  }

 private:
  Result<SizedIdentity> identity_at(std::int64_t size) const {
    TS_ASSIGN(const typename Op::Problem problem, problem_at<Op>(given_, {option_}, {size}));
    return sized_identity(identity_of(problem)).value_or(SizedIdentity{});
  }

  RangeOption option_;
  std::vector<GivenOption> given_;
  std::vector<MeasuredInterval> intervals_;
  MeasuredSoFar measured_;
};

/// Several sizes that change at once.
template <class Op>
class BoxTuning {
 public:
  BoxTuning(std::vector<RangeOption> ranges, std::vector<GivenOption> given)
      : ranges_(std::move(ranges)), given_(std::move(given)) {}

  /// As of RangeTuning.
  template <class TuneSome>
  Status run(const TuneOptions& options, int most, TuneSome tune_some) {
    TS_TRY(find_sides());
    search_.emplace(whole_);
    std::vector<MeasuredCorner> corners;
    std::vector<ChangingSizes> last;
    for (std::size_t raced = 0; raced <= static_cast<std::size_t>(most);) {
      std::vector<ChangingSizes> next = search_->next(corners, static_cast<std::size_t>(most) - raced);
      if (next.empty() || next == last) break;  // all is settled, or they could not be raced
      std::vector<typename Op::Problem> problems;
      for (const ChangingSizes& sizes : next) {
        TS_ASSIGN(typename Op::Problem problem, problem_at<Op>(given_, ranges_, numbers_of(sizes)));
        problems.push_back(std::move(problem));
      }
      raced += next.size();
      last = std::move(next);
      TS_ASSIGN(const TuneSummary summary, tune_some(BenchProblems(std::move(problems))));
      TS_TRY(measured_.read(options, summary.device_class));
      corners = corners_of(measured_.file(), summary.device_class, kind_);
    }
    return {};
  }

  [[nodiscard]] nlohmann::json to_json() const {
    nlohmann::json out = nlohmann::json::array();
    for (const BoxSearch::Part& part : search_->settled())
      out.push_back({{"from", numbers_of(part.box.low)},
                     {"to", numbers_of(part.box.high)},
                     {"recipe", measured_.name(part.measured.recipe)},
                     {"bound", part.measured.bound},
                     {"trusted", is_trusted(part.measured)}});
    for (const SizeBox& box : search_->open())
      out.push_back({{"from", numbers_of(box.low)}, {"to", numbers_of(box.high)}, {"trusted", false}});
    return out;
  }

  void print() const {
    std::vector<std::string> names;
    for (const RangeOption& each : ranges_) names.push_back(given_[each.place].name);
    fmt::print("{} from, to\n", fmt::join(names, " x "));
    for (const BoxSearch::Part& part : search_->settled())
      fmt::print("{:>16}, {:<16} {}; bound {:.3f}{}\n", text_of(part.box.low), text_of(part.box.high),
                 measured_.name(part.measured.recipe), part.measured.bound,
                 is_trusted(part.measured) ? "" : ", not trusted: the policy decides");
    for (const SizeBox& box : search_->open())
      fmt::print("{:>16}, {:<16} the policy decides: --max-sizes is reached, or a corner was skipped\n",
                 text_of(box.low), text_of(box.high));
  }

 private:
  Result<SeveralSizes> sizes_at(const std::vector<std::int64_t>& numbers) const {
    TS_ASSIGN(const typename Op::Problem problem, problem_at<Op>(given_, ranges_, numbers));
    return sizes_of_identity(identity_of(problem)).value_or(SeveralSizes{});
  }

  /// Which of the sizes that may change each range is.
  Status find_sides() {
    std::vector<std::int64_t> low;
    for (const RangeOption& each : ranges_) low.push_back(each.range.low);
    TS_ASSIGN(const SeveralSizes at_low, sizes_at(low));
    kind_ = at_low.kind;
    whole_ = {at_low.sizes, at_low.sizes};
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      // Beside its other end: where that is the same size, beside the next one, which is not raced.
      const std::int64_t other = std::max(ranges_[i].range.high, ranges_[i].range.low + 1);
      std::vector<std::int64_t> numbers = low;
      numbers[i] = other;
      TS_ASSIGN(const SeveralSizes at_other, sizes_at(numbers));
      std::size_t side = 0, changed = 0;
      for (std::size_t s = 0; s < at_low.sizes.size(); ++s)
        if (at_other.sizes[s] != at_low.sizes[s]) side = s, ++changed;
      if (at_other.kind != kind_ || changed != 1 || at_other.sizes[side] != other)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{} {}: no range", given_[ranges_[i].place].name, given_[ranges_[i].place].text),
                    "what may be ranges at once are m and batch of a GEMM, seqlen-q, seqlen-k and batch of attention");
      sides_.push_back(side);
      whole_.high[side] = ranges_[i].range.high;
    }
    return {};
  }

  [[nodiscard]] std::vector<std::int64_t> numbers_of(const ChangingSizes& sizes) const {
    std::vector<std::int64_t> numbers;
    for (const std::size_t side : sides_) numbers.push_back(sizes[side]);
    return numbers;
  }
  [[nodiscard]] std::string text_of(const ChangingSizes& sizes) const {
    return fmt::format("{}", fmt::join(numbers_of(sizes), " x "));
  }

  std::vector<RangeOption> ranges_;
  std::vector<GivenOption> given_;
  std::vector<std::size_t> sides_;  ///< of the changing sizes, for each range
  std::string kind_;
  SizeBox whole_;
  std::optional<BoxSearch> search_;
  MeasuredSoFar measured_;
};

}  // namespace tilesmith::cli
