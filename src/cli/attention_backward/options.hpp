// The options that describe an attention-backward problem on the command line, and the call they make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/problem_arguments.hpp"
#include "trial/attention_backward/case.hpp"

namespace tilesmith::cli {

struct AttentionBackwardOptions {
  ProblemArguments<AttentionBwd> problem;
  std::string q, k, v, bias, alibi, sink, dout, cu_seqlens_q, cu_seqlens_k;  ///< files of inputs
  std::string dq, dk, dv, dbias, dalibi, dsink;                              ///< files of results

  void add_to(CLI::App& verb);
};

/// Reads the files. Sizes are those of the options: a file whose shape is another is an error.
[[nodiscard]] Result<CallOnFiles<AttentionBwd>> read_call_on_files(const AttentionBackwardOptions& options);

}  // namespace tilesmith::cli
