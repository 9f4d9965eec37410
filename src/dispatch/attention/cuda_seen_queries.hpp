// Attention of which the first queries see no key (choose/attention/seen_queries.hpp): a launch that writes their zeros
// in front of a plan of the others.
#pragma once

#include <memory>

#include "dispatch/attention/cuda_whole_rows.hpp"

namespace tilesmith {

/// A plan of the problem: `attend`, a plan of with_seen_queries(problem), runs behind the launch.
[[nodiscard]] std::unique_ptr<AttentionPlan> cuda_seen_queries_plan(const AttentionProblem& problem,
                                                                    std::unique_ptr<AttentionPlan> attend,
                                                                    const CudaRowCopier& copier);

}  // namespace tilesmith
