// What --op takes: an operation that runs (attention_fwd), or the operation of its kernels (attention).
#pragma once

#include <optional>
#include <string_view>

#include "problem/operations.hpp"

namespace tilesmith::cli {

/// The row that is named, or the first of an operation's. Error: invalid_argument, with the names that there are.
[[nodiscard]] inline Result<RowChoice> parse_row_option(std::string_view text) {
  std::optional<RowChoice> found;
  for_each_operation([&]<class Op>(Op) {
    if (Op::kName == text) found = RowChoice::of<Op>();
  });
  if (found) return *found;
  TS_ASSIGN(const Operation operation, parse_enum<Operation>(text));
  return RowChoice(operation);
}

/// The operation of the kernels. Error: invalid_argument, with the names that there are.
[[nodiscard]] inline Result<Operation> parse_operation_option(std::string_view text) {
  Operation found{};
  const bool is_row = any_operation([&]<class Op>(Op) {
    if (Op::kName != text) return false;
    found = Op::kKernels;
    return true;
  });
  if (is_row) return found;
  return parse_enum<Operation>(text);
}

}  // namespace tilesmith::cli
