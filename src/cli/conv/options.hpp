// The options that describe a convolution problem on the command line, and the call they make.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "cli/problem_arguments.hpp"
#include "trial/conv/case.hpp"

namespace tilesmith::cli {

struct ConvOptions {
  static constexpr std::size_t kTensors = 2;  ///< of add and multiply

  ProblemArguments<Conv> problem;
  std::string x, w, y, bias, scale_n;         ///< files of inputs
  std::array<std::string, kTensors> tensors;  ///< what add and multiply read, in order
  std::string out;                            ///< file of the result

  void add_to(CLI::App& verb);
};

/// Reads the files. Sizes are those of the options: a file whose shape is another is an error.
[[nodiscard]] Result<CallOnFiles<Conv>> read_call_on_files(const ConvOptions& options);

}  // namespace tilesmith::cli
