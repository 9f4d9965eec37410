// What --op takes: an operation that runs (attention_fwd), or the operation of its kernels (attention).
#pragma once

#include <string_view>

#include "problem/operations.hpp"

namespace tilesmith::cli {

/// Error: invalid_argument, with the names that there are.
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
