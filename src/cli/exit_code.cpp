#include <fmt/core.h>

#include <cstdio>

#include "base/json.hpp"
#include "cli/signals.hpp"
#include "cli/verbs.hpp"

namespace tilesmith::cli {

std::string json_text(const nlohmann::json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int exit_code_of(const Status& status) {
  if (status) return kSuccess;
  stay_silent_at_the_end();
  const Error& error = status.error();
  fmt::print(stderr, "error: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
  return error.code == ErrorCode::invalid_argument || error.code == ErrorCode::parse ? kUsage : kFailure;
}

}  // namespace tilesmith::cli
