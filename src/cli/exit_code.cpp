#include <fmt/core.h>

#include <cstdio>

#include "cli/verbs.hpp"

namespace tilesmith::cli {

int exit_code_of(const Status& status) {
  if (status) return kSuccess;
  const Error& error = status.error();
  fmt::print(stderr, "error: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
  return error.code == ErrorCode::invalid_argument ? kUsage : kFailure;
}

}  // namespace tilesmith::cli
