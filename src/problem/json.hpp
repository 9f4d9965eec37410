// Problems as JSON and as one line of text, both naming every field that is not at its default.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

[[nodiscard]] nlohmann::json to_json(const AttentionProblem& problem);

/// "bf16 b1 h16/4 s512x1024 d128 causal": for tables.
[[nodiscard]] std::string describe(const AttentionProblem& problem);

/// "rcr": the orders of A, B and D.
[[nodiscard]] std::string layout_of(const GemmProblem& problem);
/// Sets the orders of A and B. Error: no layout of those that are computed.
[[nodiscard]] Status set_layout(GemmProblem& problem, std::string_view layout);

[[nodiscard]] nlohmann::json to_json(const GemmProblem& problem);
/// "bf16 256x512x1024 rcr bias+gelu": m x n x k.
[[nodiscard]] std::string describe(const GemmProblem& problem);

/// "bias+gelu"; empty without operations.
[[nodiscard]] std::string joined(const GemmEpilogue& epilogue);

}  // namespace tilesmith
