// Builds an operation's table of options: plain ones from the names of fields, joined ones as they are.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "problem/line.hpp"

namespace tilesmith {

template <class Op>
class OptionTable {
 public:
  using Call = RandomCall<Op>;

  /// What follows stands under this heading in help texts.
  OptionTable& group(std::string heading) {
    group_ = std::move(heading);
    return *this;
  }

  /// An option of one field of the problem or of the numbers.
  OptionTable& field(const std::string& name, std::vector<std::string> names, std::string about) {
    ProblemOption<Op> option{.names = std::move(names), .about = std::move(about), .fields = {name}};
    const Call usual{};
    visit_field(usual, name, [&]<class F>(const F&) {
      option.form = FlagField<F>                         ? OptionForm::flag
                    : IsVector<F>::value || ListField<F> ? OptionForm::list
                                                         : OptionForm::value;
    });
    option.text = [name](const Call& call) {
      std::optional<std::string> text;
      visit_field(call, name, [&]<class F>(const F& value) {
        if constexpr (FlagField<F>) {
          if (value) text = "";
        } else {
          text = text_of_value(value);
          if (text->empty()) text.reset();  // an optional without a value, an empty list
        }
      });
      return text;
    };
    option.read = [name, word = option.name()](Call& call, std::string_view text) {
      Status status;
      visit_field(call, name, [&]<class F>(F& value) {
        if constexpr (FlagField<F>)
          value = true;
        else
          status = read_value_text(word, text, value);
        if constexpr (EnumField<F>)
          if (!status) status = std::unexpected(unknown_word<F>(word, text));
      });
      return status;
    };
    return add(std::move(option));
  }

  OptionTable& add(ProblemOption<Op> option) {
    option.group = group_;
    options_.push_back(std::move(option));
    return *this;
  }

  /// Lines have the last option even at its usual value.
  OptionTable& always() {
    options_.back().always = true;
    return *this;
  }

  /// The table, with an option --field-name for every field that none of its options sets.
  [[nodiscard]] std::vector<ProblemOption<Op>> finish() {
    const auto add_missing = [this](std::string_view field, const auto&) {
      const auto sets = [&](const ProblemOption<Op>& option) {
        return std::ranges::find(option.fields, field) != option.fields.end();
      };
      if (std::ranges::any_of(options_, sets)) return;
      std::string name = "--" + std::string(field);
      std::ranges::replace(name, '_', '-');
      this->field(std::string(field), {name}, "The problem's " + std::string(field));
    };
    const Call usual{};
    Op::Problem::fields(usual.problem, add_missing);
    Op::Numbers::fields(usual.numbers, add_missing);
    return std::move(options_);
  }

 private:
  /// What to say to a word that is no value of the enumeration: the words that this option takes. A word that is no
  /// value for the operation (fp64 for a GEMM) is none of them.
  template <class E>
  static Error unknown_word(const std::string& option, std::string_view text) {
    std::vector<std::string> all, taken;
    for (const auto& entry : EnumTable<E>::kNames) {
      all.emplace_back(entry.name);
      if (read_call<Op>({{option, all.back()}})) taken.push_back(all.back());
    }
    // Beside its usual value alone, an option's others may depend on what else is given.
    Error error = detail::unknown_name(EnumTable<E>::kWhat, text, taken.size() > 1 ? taken : all);
    error.code = ErrorCode::invalid_argument;
    return error.in(option);
  }

  template <class C, class Visit>
  static void visit_field(C& call, std::string_view name, Visit visit) {
    const auto each = [&](std::string_view field, auto& value) {
      if (field == name) visit(value);
    };
    Op::Problem::fields(call.problem, each);
    Op::Numbers::fields(call.numbers, each);
  }

  std::string group_;
  std::vector<ProblemOption<Op>> options_;
};

}  // namespace tilesmith
