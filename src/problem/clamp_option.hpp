// --clamp LOW,HIGH: the limits of an epilogue's clamp, of every operation that has epilogues.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "problem/option_table.hpp"

namespace tilesmith {

template <class Problem>
[[nodiscard]] bool has_clamp(const Problem& problem) {
  return std::ranges::find(problem.epilogue, EpilogueOp::clamp) != problem.epilogue.end();
}

template <class Op>
[[nodiscard]] ProblemOption<Op> clamp_option() {
  return {.names = {"--clamp"},
          .about = "LOW,HIGH: the limits of clamp (default -1,1)",
          .form = OptionForm::pair,
          .fields = {"clamp_low", "clamp_high"},
          .text = [](const RandomCall<Op>& call) -> std::optional<std::string> {
            if (!has_clamp(call.problem)) return std::nullopt;
            return fmt::format("{},{}", call.numbers.clamp_low, call.numbers.clamp_high);
          },
          .read = [](RandomCall<Op>& call, std::string_view text) -> Status {
            std::vector<float> limits;
            TS_TRY(read_value_text("--clamp", text, limits));
            if (limits.size() != 2) return wrong_value("--clamp", text, "LOW,HIGH");
            call.numbers.clamp_low = limits[0];
            call.numbers.clamp_high = limits[1];
            return {};
          }};
}

/// Errors: invalid_argument, when the limits were given and nothing clamps.
template <class Problem>
[[nodiscard]] Status check_clamp_option(const GivenFields& given, const Problem& problem) {
  if (!given.has("clamp_low") || has_clamp(problem)) return {};
  return fail(ErrorCode::invalid_argument, "--clamp is given, and --epilogue has no clamp", "--epilogue clamp");
}

}  // namespace tilesmith
