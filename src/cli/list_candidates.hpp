// tilesmith list --candidates: what dispatch chooses from for a problem, in its order.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.hpp"

namespace tilesmith::cli {

struct CandidateOptions {
  bool wanted = false, refused = false;
  int threads = 1;
  std::string policy = "dispatch";

  void add_to(CLI::App& verb);
};

/// Prints the candidates of the problem that the verb's options describe, those of `run` for the operation: what the
/// verb itself did not take, and the options of one name that it took. Errors: invalid_argument, and those of the
/// choice.
[[nodiscard]] Status list_candidates_of(const CLI::App& verb, const CandidateOptions& options);

}  // namespace tilesmith::cli
