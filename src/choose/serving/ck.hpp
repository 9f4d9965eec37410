// Choosing among Composable Kernel's instances that append keys and values to a cache (fwd_appendkv), by a model of the
// chip. Such a kernel is a pass over the new tokens: little beside the padding of head dims tells instances apart.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// Instances that do what the call asks for, by predicted seconds. Of the call the sizes, types, pages and rotation are
/// read, no pointer but that it is there. Error: unsupported, with what refuses the call.
[[nodiscard]] Result<Ranking> rank(const CkFacts& facts, const AppendKv& call);

/// Every other instance with the call's traits and head dims, and what refused it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CkFacts& facts, const AppendKv& call);

}  // namespace tilesmith
