// An attention problem as JSON and as one line of text, both naming every field that is not at its default.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tilesmith/attention.hpp"

namespace tilesmith {

[[nodiscard]] nlohmann::json to_json(const AttentionProblem& problem);

/// "bf16 b1 h16/4 s512x1024 d128 causal": for tables.
[[nodiscard]] std::string describe(const AttentionProblem& problem);

/// The command that repeats this problem: "tilesmith run attention_fwd --batch 1 ...".
[[nodiscard]] std::string repro_command(const AttentionProblem& problem);

}  // namespace tilesmith
