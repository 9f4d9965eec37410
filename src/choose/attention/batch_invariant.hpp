// Of batch-invariant problems: one kernel takes all that differ in what may stand beside a sequence.
#pragma once

#include "tilesmith/attention.hpp"

namespace tilesmith {

/// The problem whose order of kernels all such problems share: one usual sequence of the same types, heads and traits.
/// In batch mode it has the problem's number of queries, which all its sequences have; packed, a usual one.
[[nodiscard]] AttentionProblem usual_sequence_of(const AttentionProblem& problem);

}  // namespace tilesmith
