// The words of `tilesmith bench` that no option of the verb takes: a sweep file, and the options of problems.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tilesmith::cli {

struct BenchWords {
  std::string config;                ///< the sweep file; empty: none
  std::vector<std::string> problem;  ///< options of a problem and their values
};

/// Error: invalid_argument, a word that no operation's problem has, with what was probably meant.
[[nodiscard]] Result<BenchWords> bench_words(const CLI::App& verb);

}  // namespace tilesmith::cli
