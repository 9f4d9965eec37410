// Numbers of options that have a least value and no largest. CLI11's own checks name the largest double as the bound.
#pragma once

#include <fmt/format.h>

#include <string>

#include "cli/verbs.hpp"

namespace tilesmith::cli {

[[nodiscard]] inline CLI::Validator number_check(const char* kind, const char* right, bool (*holds)(double)) {
  return CLI::Validator(
      [right, holds](const std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && holds(number) ? std::string()
                                                                        : fmt::format("{} is not {}", text, right);
      },
      kind);
}

[[nodiscard]] inline CLI::Validator non_negative() {
  return number_check("NONNEGATIVE", "a number from 0 on", [](double number) { return number >= 0; });
}

[[nodiscard]] inline CLI::Validator positive() {
  return number_check("POSITIVE", "a number above 0", [](double number) { return number > 0; });
}

}  // namespace tilesmith::cli
