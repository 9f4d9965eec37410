// Problems that a log names: what run, tune and TILESMITH_LOG=debug print of them, among any other lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "problem/line.hpp"

namespace tilesmith::cli {

struct LoggedProblems {
  std::vector<AnyRandomCall> calls;
  std::vector<std::string> refused;  ///< "FILE:7: why", of lines that begin as a problem and are none
};

/// A problem begins with its operation's name and an option ("gemm -m 3") and ends with the line, a quote or two
/// blanks. Options of run that say how it ran (--device cuda:0, --verify) are left out.
[[nodiscard]] LoggedProblems problems_in_log(std::string_view text, std::string_view origin);

}  // namespace tilesmith::cli
