// Problems as one short line for tables and logs. The line that repeats a run is problem/line.hpp's.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "problem/operations.hpp"

namespace tilesmith {

/// "bf16 b1 h16/4 s512x1024 d128 causal".
[[nodiscard]] std::string describe(const AttentionProblem& problem);
[[nodiscard]] std::string describe(const AttentionBackwardProblem& problem);
/// "bf16 256x512x1024 rcr bias+gelu": m x n x k.
[[nodiscard]] std::string describe(const GemmProblem& problem);
/// "bf16 bwd_data n8 g1 c64 k128 56x56 filter 3x3 stride 2x2 pad 1x1": c and k of a group.
[[nodiscard]] std::string describe(const ConvProblem& problem);
[[nodiscard]] inline std::string describe(const AnyProblem& problem) {
  return std::visit([](const auto& each) { return describe(each); }, problem);
}

/// "rcr": the orders of A, B and D.
[[nodiscard]] std::string layout_of(const GemmProblem& problem);
/// Sets the orders of A, B and D. Error: invalid_argument, a text that is no layout.
[[nodiscard]] Status set_layout(GemmProblem& problem, std::string_view layout);

/// "bias+gelu"; empty without operations.
[[nodiscard]] std::string joined(const GemmEpilogue& epilogue);

}  // namespace tilesmith
