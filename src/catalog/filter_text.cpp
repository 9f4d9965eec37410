// From a filter expression to a SQL condition, token by token. Nothing that is not a known token gets through.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "catalog/filter.hpp"
#include "catalog/filter_columns.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kMaxLength = 16384;
constexpr int kMaxDepth = 64;

constexpr std::string_view kExample = "for example: c.hdim_q == 128 and c.pipeline == 'qr_async'";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

class Translator {
 public:
  Translator(std::string_view text, Operation operation) : text_(text), operation_(operation) {}

  Result<std::string> run() {
    if (text_.size() > kMaxLength)
      return fail(ErrorCode::invalid_argument, fmt::format("filter of {} characters", text_.size()),
                  fmt::format("at most {}", kMaxLength));
    for (skip_space(); at_ < text_.size(); skip_space()) TS_TRY(token());
    if (!open_.empty()) return refuse("a bracket is not closed");
    if (sql_.empty()) return fail(ErrorCode::invalid_argument, "the filter is empty", std::string(kExample));
    return std::move(sql_);
  }

 private:
  std::unexpected<Error> refuse(std::string_view what, std::string hint = std::string(kExample)) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("filter, at character {}: {}: \"{}\"", at_ + 1, what, text_.substr(at_, 40)),
                std::move(hint));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  void emit(std::string_view piece) {
    if (!sql_.empty()) sql_ += ' ';
    sql_ += piece;
  }

  Status token() {
    const char c = text_[at_];
    if (is_letter(c)) return word();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string();
    return symbol();
  }

  Status word() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    const std::string key = lower(name);
    if (key == "c" && end < text_.size() && text_[end] == '.') {
      at_ = end + 1;
      if (at_ == text_.size() || !is_letter(text_[at_])) return refuse("a field name should follow c.");
      return field();
    }
    for (const std::string_view connective : {"and", "or"})
      if (key == connective) {
        at_ = end;
        compared_ = false;
        compared_field_ = nullptr;
        emit(connective);
        return {};
      }
    for (const std::string_view keyword : {"not", "in", "between", "like", "glob", "is", "true", "false"})
      if (key == keyword) {
        at_ = end;
        emit(keyword);
        return {};
      }
    if (key == "none" || key == "null") {
      at_ = end;
      emit("null");
      return {};
    }
    return field();
  }

  Status field() {
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    const FilterColumn* column = find_filter_column(operation_, name);
    if (column == nullptr) {
      std::vector<std::string> known;
      for (const FilterColumn& each : filter_columns(operation_)) known.push_back(each.name);
      std::string hint = did_you_mean(name, known);
      if (hint.empty())
        hint =
            fmt::format("fields are those of tilesmith list --json, such as {}, {}, {}", known[0], known[1], known[2]);
      return fail(ErrorCode::invalid_argument,
                  fmt::format("filter, at character {}: {} kernels have no field \"{}\"", at_ + 1, name_of(operation_),
                              name.substr(0, 64)),
                  hint);
    }
    at_ = end;
    compared_field_ = column;
    emit(fmt::format("c.\"{}\"", column->name));
    return {};
  }

  Status number() {
    std::size_t end = at_;
    while (end < text_.size() && (is_digit(text_[end]) || text_[end] == '.')) ++end;
    if (end < text_.size() && is_letter(text_[end])) return refuse("a number should end before a letter");
    const std::string_view digits = text_.substr(at_, end - at_);
    if (std::ranges::count(digits, '.') > 1 || digits.back() == '.' || digits.size() > 18)
      return refuse("this is no number");
    emit(digits);
    at_ = end;
    return {};
  }

  Status string() {
    const char quote = text_[at_];
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return refuse("a string is not closed");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    const bool is_pattern = sql_.ends_with("like") || sql_.ends_with("glob");
    if (compared_field_ != nullptr && compared_field_->field != nullptr &&
        compared_field_->field->kind == FieldKind::enumeration && !is_pattern) {
      // A misspelt value would silently match nothing.
      const FieldInfo& field = *compared_field_->field;
      const std::int64_t number = field.value_of(value);
      const std::vector<std::string> known(field.value_names.begin(), field.value_names.end());
      if (number < 0)
        return refuse(fmt::format("{} has no value \"{}\"", compared_field_->name, value.substr(0, 64)),
                      did_you_mean(value, known));
      value = field.value_names[static_cast<std::size_t>(number)];
    }
    at_ = end + 1;
    std::string quoted = "'";
    for (const char c : value) {
      if (c == '\0') return refuse("a string has a zero byte");
      quoted += c;
      if (c == '\'') quoted += c;
    }
    emit(quoted + "'");
    return {};
  }

  Status symbol() {
    for (const std::string_view comparison : {"==", "!=", "<>", "<=", ">=", "=", "<", ">"}) {
      if (!text_.substr(at_).starts_with(comparison)) continue;
      // In SQL a < b < c compares a truth value with c; in Python it means something else. Neither is what a reader
      // should guess.
      if (compared_)
        return refuse("comparisons do not chain", "join two comparisons by and: 64 <= c.tile_m0 and c.tile_m0 <= 128");
      compared_ = true;
      at_ += comparison.size();
      emit(comparison == "=" ? "==" : comparison);
      return {};
    }
    const char c = text_[at_];
    if (c == '(' || c == '[') {
      if (open_.size() >= kMaxDepth)
        return refuse("brackets are nested too deeply", fmt::format("at most {} levels", kMaxDepth));
      open_.push_back({c == '(' ? ')' : ']', compared_});
      compared_ = false;
      ++at_;
      emit("(");
      return {};
    }
    if (c == ')' || c == ']') {
      if (open_.empty() || open_.back().close != c) return refuse("this bracket closes nothing");
      compared_ = open_.back().compared;
      open_.pop_back();
      ++at_;
      emit(")");
      return {};
    }
    if (c == ',' && open_.empty()) return refuse("a comma belongs in a list: in ('a', 'b')");
    // -- and /* open comments in SQL.
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
    if ((c == '-' && next == '-') || (c == '/' && next == '*')) return refuse("comments are not part of a filter");
    for (const char allowed : {',', '+', '-', '*', '/', '%'})
      if (c == allowed) {
        ++at_;
        emit(std::string_view(&allowed, 1));
        return {};
      }
    return refuse("this is no part of a filter");
  }

  struct Open {
    char close;
    bool compared;
  };

  std::string_view text_;
  Operation operation_;
  std::size_t at_ = 0;
  std::string sql_;
  std::vector<Open> open_;
  bool compared_ = false;
  const FilterColumn* compared_field_ = nullptr;
};

}  // namespace

Result<std::string> filter_to_sql(std::string_view expression, Operation operation) {
  return Translator(expression, operation).run();
}

Result<std::string> read_filter_file(const std::string& path) {
  auto read = read_file(path, kMaxLength);
  if (!read) return std::unexpected(read.error().in("the filter file"));
  const std::string& text = *read;
  std::string expression;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (const std::size_t first = line.find_first_not_of(" \t"); first == std::string_view::npos || line[first] != '#')
      expression.append(line).append("\n");
    at = end + 1;
  }
  return expression;
}

}  // namespace tilesmith
