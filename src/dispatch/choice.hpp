// Choosing a kernel for a problem: the policy's first, and when it cannot be had, the next best thing that can, with a
// word about it.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "dispatch/backend.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// A plan by the best kernel that can be had under the options. Errors: those of the best kernel.
template <class PlanT>
[[nodiscard]] Result<std::unique_ptr<PlanT>> choose_plan(OperationBackend<PlanT>& backend,
                                                         const typename PlanT::Problem& problem,
                                                         const DispatcherOptions& options);

extern template Result<std::unique_ptr<AttentionPlan>> choose_plan(OperationBackend<AttentionPlan>&,
                                                                   const AttentionProblem&, const DispatcherOptions&);
extern template Result<std::unique_ptr<GemmPlan>> choose_plan(OperationBackend<GemmPlan>&, const GemmProblem&,
                                                              const DispatcherOptions&);

}  // namespace tilesmith
