// Filters over configs: "c.hdim_q == 128 and c.pipeline in ('qr', 'qr_async') and not c.lse".
//
// An expression is data. It is cut into tokens here (fields, numbers, strings, comparison,
// and/or/not/in/between/like/is, arithmetic), put together again as SQL, and evaluated by SQLite over a table c whose
// one batch of rows is what the enumeration just produced; an authorizer refuses anything but reading that table.
// Fields go by Tilesmith's names or Composable Kernel's (filter_columns.hpp), with or without "c.".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

class Filter {
 public:
  /// An unknown field, an unknown value of an enumeration or a malformed expression is an error that says what is near
  /// or right.
  [[nodiscard]] static Result<Filter> compile(std::string_view expression, Operation operation);
  /// All of several expressions. None accepts everything.
  [[nodiscard]] static Result<Filter> compile_all(std::span<const std::string> expressions, Operation operation);

  /// keep[i] becomes whether batch[i] passes.
  [[nodiscard]] Status select(std::span<const KernelConfig> batch, std::vector<bool>& keep) const;

  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  ~Filter();

 private:
  struct State;
  explicit Filter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The expression a file holds; lines that start with # are comments.
[[nodiscard]] Result<std::string> read_filter_file(const std::string& path);

/// The SQL condition of an expression, for tests and error messages.
[[nodiscard]] Result<std::string> filter_to_sql(std::string_view expression, Operation operation);

}  // namespace tilesmith
