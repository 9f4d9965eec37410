#include "choose/determinism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace tilesmith {

Status order_for(Determinism determinism, std::vector<Candidate>& candidates) {
  const auto is_bitwise = [](const Candidate& candidate) { return candidate.recipe.is_bitwise(); };
  if (determinism == Determinism::bitwise) {
    const std::size_t all = candidates.size();
    std::erase_if(candidates, std::not_fn(is_bitwise));
    if (candidates.empty())
      return fail(ErrorCode::unsupported,
                  fmt::format("{} kernels compute this problem, and all of them add partials in any order, while "
                              "bitwise determinism is asked for",
                              all),
                  "determinism tolerant");
    return {};
  }
  const auto other = std::ranges::find_if_not(candidates, is_bitwise);
  // What was measured is not compared with what was only predicted.
  const bool alike = other != candidates.end() &&
                     other->measured_seconds.has_value() == candidates.front().measured_seconds.has_value();
  if (alike && !other->measured_seconds && other->predicted_seconds < candidates.front().predicted_seconds)
    std::rotate(candidates.begin(), other, other + 1);
  return {};
}

}  // namespace tilesmith
