// Attention on a cache that the call appends to, in one launch of a decode kernel.
#pragma once

#include <memory>

#include "dispatch/backend.hpp"

namespace tilesmith {

/// A plan of the problem, of which writes_new_keys holds (choose/attention/cuda_model.hpp): `attend`, a CudaDecodePlan
/// of attended(problem), writes the new keys itself. Of a call that it cannot write (cuda_new_keys.hpp) `append` does,
/// first.
[[nodiscard]] std::unique_ptr<AttentionPlan> cuda_append_plan(const AttentionProblem& problem,
                                                              std::unique_ptr<AttentionPlan> attend,
                                                              DirectBackend<AppendKvCall>& append);

}  // namespace tilesmith
