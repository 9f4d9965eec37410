// The options that describe an attention problem on the command line, and the call they make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/problem_arguments.hpp"
#include "trial/attention/case.hpp"

namespace tilesmith::cli {

struct AttentionOptions {
  ProblemArguments<AttentionFwd> problem;
  std::string q, k, v, bias, tree_mask, alibi, sink, cu_seqlens_q,
      cu_seqlens_k;      ///< files of inputs
  std::string out, lse;  ///< files of results

  void add_to(CLI::App& verb);
};

/// Reads the files, takes sizes that are not given from their shapes, and checks that all of it fits together.
[[nodiscard]] Result<CallOnFiles<AttentionFwd>> read_call_on_files(const AttentionOptions& options);

}  // namespace tilesmith::cli
