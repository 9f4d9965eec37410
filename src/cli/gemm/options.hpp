// The options that describe a GEMM on the command line, and the call they make.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "cli/problem_arguments.hpp"
#include "trial/gemm/case.hpp"

namespace tilesmith::cli {

struct GemmOptions {
  static constexpr std::size_t kTensors = 4;

  ProblemArguments<Gemm> problem;
  std::string a, b, a2, b2, c, bias, scale_m, scale_n;  ///< files of inputs
  std::array<std::string, kTensors> tensors;            ///< what add and multiply read, in the epilogue's order
  std::string out;

  void add_to(CLI::App& verb);
};

/// Reads the files, takes sizes that are not given from their shapes, and checks that all of it fits together.
[[nodiscard]] Result<CallOnFiles<Gemm>> read_call_on_files(const GemmOptions& options);

}  // namespace tilesmith::cli
