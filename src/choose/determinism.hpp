// What the determinism that a caller asks for leaves of a ranking.
#pragma once

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Bitwise: removes recipes that give other bits from run to run. Tolerant: the best of those goes first if it should
/// be faster than the ranking's first. Error: unsupported, when bitwise determinism leaves no candidate.
[[nodiscard]] Status order_for(Determinism determinism, std::vector<Candidate>& candidates);

}  // namespace tilesmith
